"""The page that certifies in a browser: a static folder (`web`), and a small server for it (`server`)."""

from intrs.site.folder import Site, web
from intrs.site.server import serving

__all__ = ["Site", "serving", "web"]

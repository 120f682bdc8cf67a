"""The page that certifies in a browser: a static folder (`web`), and a small server for it (`serving`)."""

from intrs.site.folder import Site, web
from intrs.site.serving import serving

__all__ = ["Site", "serving", "web"]

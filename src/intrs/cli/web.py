"""`intrs web`: the page that certifies in a browser, as a folder or served from here."""

from __future__ import annotations

import shlex
import tempfile
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.cli.screen import say
from intrs.errors import SettingsError

if TYPE_CHECKING:
    from argparse import Namespace


def web(args: Namespace) -> int:
    """Write the folder, and serve it if asked to."""
    if args.out is None and args.serve is None:
        raise SettingsError("say where to write the page: -o FOLDER, or --serve to open it at once")
    if args.no_open and args.serve is None:
        raise SettingsError("--no-open is about --serve; add --serve, or leave it out")
    if args.out is not None:
        _write(args, args.out)
        if args.serve is not None:
            return _serve(args.out, args.serve, show=not args.no_open)
        say(
            f"Next: put the folder on any web server, or try it: python3 -m http.server -d {shlex.quote(str(args.out))}"
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="intrs-web-") as folder:
        _write(args, Path(folder))
        return _serve(Path(folder), args.serve, show=not args.no_open)


def _write(args: Namespace, out: Path) -> None:
    from intrs import site

    settings = {name: getattr(args, name) for name in ("sigma", "data", "images") if getattr(args, name) is not None}
    if args.models:
        settings["models"] = args.models
    made = site.web(out, **settings, overwrite=args.overwrite, progress=args.progress)
    say(f"{made.path}: {len(made.sizes)} files, {made.size:,} bytes, of which {made.first_load:,} load first")
    for name in made.models:
        say(f"model  {name}")


def _serve(folder: Path, port: int, *, show: bool) -> int:
    """Until Ctrl-C."""
    from intrs import site

    with site.serving(folder, port) as server:
        address = f"http://localhost:{server.server_address[1]}/"
        say(f"{address} (Ctrl-C ends it)")
        if show:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0

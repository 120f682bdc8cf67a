"""Commands for maintainers; nothing here is part of the package."""

"""Text from files of any origin."""


def printable(text: str) -> str:
    """The text with control characters escaped: a name from such a file must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)

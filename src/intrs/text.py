"""Text from files of any origin."""

import re

LONGEST_NAME = 48  # characters of a name in a file that is written
NOT_PLAIN = re.compile(r"[^A-Za-z0-9_./-]|(?<![A-Za-z0-9_.-])/|/(?![A-Za-z0-9_.-])")


def printable(text: str) -> str:
    """The text with control characters escaped: a name from such a file must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def plain_name(text: str, most: int = LONGEST_NAME) -> str:
    """A name from such a file that source code, Makefiles and Markdown can hold, in comments and in strings.

    It has ASCII letters, digits, `_`, `.` and `-`, and `/` between two of these; everything else becomes `_`. So it
    ends no comment, string or line, and begins none. Of a long name the end is kept, which tells layers apart.
    """
    name = text.strip("/")
    return NOT_PLAIN.sub("_", name if len(name) <= most else "..." + name[3 - most :])

"""What an output is: a file that is to be written, as data. ``apply`` turns it into a change with a diff."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSpec:
    """One file to write.

    ``path`` is absolute, or relative to the chosen output folder. ``content`` is exact. ``mode`` are the
    permission bits. ``secret`` content is never shown in a diff. ``expected_bytes`` is what the file held
    when it was read (None: it did not exist): ``apply`` stops if it holds something else by then; it only
    counts when ``edited`` is true (an edit of the user's own file).
    """

    path: str
    content: bytes
    mode: int = 0o644
    secret: bool = False
    edited: bool = False
    expected_bytes: bytes | None = None
    title: str = ""
    keep_existing: bool = False  # an existing file is left alone (a user's env file with a token)

"""The command: as little as possible is imported here, and every way out has its exit code.

0: done. 1: it could not be done. 2: the input is wrong. 130: interrupted.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost --help a good part of its time
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (without the program's name) and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _prepare_streams()
    options = words[: words.index("--")] if "--" in words else words
    try:
        code = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        if argv is None and words[:1] == ["diagnose"]:
            # All is said, and taking the interpreter apart takes as long as reading a short log.
            os._exit(code)
        return code
    except KeyboardInterrupt:
        _say("")
        return 130
    except BrokenPipeError:
        # The reader has all it wanted (head, a pager that was left). Nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except SystemExit as leaving:
        # argparse leaves like this after --help.
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:
        if "--debug" in options:
            import traceback

            _say(traceback.format_exc().rstrip())
        code, text = _end_of(error)
        _say(f"vllm-wizard: {text}")
        if "--json" in options:
            _print_error(error, code, text)
        return code


def _end_of(error: Exception) -> tuple[int, str]:
    """The exit code and the words for an error."""
    from wizard.errors import WizardError
    from wizard.i18n import _

    if isinstance(error, WizardError):
        return error.exit_code, str(error)
    if isinstance(error, OSError) and error.filename is None and _is_stdout_full(error):
        return 1, _("The output could not be written: {reason}.").format(reason=error.strerror)
    if isinstance(error, OSError) and error.filename is not None:
        return (1 if _is_stdout_full(error) else 2), _told(error)
    return 1, _(
        "This should not have happened: {kind}: {error}. Nothing more was written. Run the same again with --debug and report what it shows."
    ).format(kind=type(error).__name__, error=" ".join(str(error).split()))


def _told(error: OSError) -> str:
    """A file or folder that the system refused, in words."""
    import errno

    from wizard.i18n import _

    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename)
    texts = {
        errno.EACCES: _("No permission for {path}: it, or a folder above it, may not be used by this user. Change its mode or owner, or name another."),
        errno.ENAMETOOLONG: _("The name {path} is too long for the file system. Name a shorter one."),
        errno.ENOENT: _("There is no file or folder {path}."),
        errno.ENOTDIR: _("{path} cannot be used: a part of the path is a file, not a folder."),
        errno.EISDIR: _("{path} is a folder; a file is needed there."),
        errno.ELOOP: _("{path} is a link that leads back to itself. Remove it or name another."),
        errno.EROFS: _("{path} lies on a read-only file system. Name another place."),
        errno.ENOSPC: _("No space is left for {path}. Free some space or name another place."),
    }
    texts[errno.EPERM] = texts[errno.EACCES]
    text = texts.get(error.errno or 0) or _("{path} cannot be read or written: {reason}.")
    return text.format(path=path, reason=error.strerror or error)


def _print_error(error: Exception, code: int, text: str) -> None:
    """The error on standard output, for a program that reads JSON there; the words stand on standard error too."""
    import contextlib
    import json

    from wizard.errors import BadInput, WizardError
    from wizard.program import spelt

    named = isinstance(error, OSError) and error.filename is not None
    kind = "bad_input" if code == BadInput.exit_code else "failed" if named or isinstance(error, WizardError) else "internal"
    with contextlib.suppress(OSError, ValueError):
        # ASCII, so that it can be written whatever the terminal's encoding is.
        print(json.dumps({"error": {"kind": kind, "message": spelt(text), "exit_code": code}}), flush=True)


def _run(words: list[str]) -> int:
    from wizard import cli

    return cli.run(words)


def _is_stdout_full(error: OSError) -> bool:
    import errno

    return error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF)


def _prepare_streams() -> None:
    """No closed standard stream may be taken by a file that is opened later, and no text may fail to print."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        encoding = getattr(stream, "encoding", None)
        if encoding and encoding.lower().replace("-", "") != "utf8":
            from wizard.plain_text import use_replacements

            use_replacements(stream)
        elif encoding and getattr(stream, "errors", "") == "strict":
            # File names need not be UTF-8.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _say(text: str) -> None:
    """Tell on standard error, or nowhere when it is closed or broken."""
    from wizard.plain_text import printable
    from wizard.program import spelt

    try:
        if sys.stderr is not None:
            print(printable(spelt(text)), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    sys.exit(main())

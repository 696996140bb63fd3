"""Errors that a user caused or can cure. Faces print the message; only ``--debug`` shows a traceback."""

from __future__ import annotations


class WizardError(Exception):
    """Something could not be done (exit code 1). The message says what and what to do."""

    exit_code = 1


class BadInput(WizardError):
    """The input is wrong (exit code 2): the message names the file, line or field, and the cure."""

    exit_code = 2

"""vllm.env: where the secrets live, and nowhere else (mode 0600)."""

from __future__ import annotations

from wizard.i18n import _
from wizard.outputs.quoting import wrap_comment
from wizard.outputs.spec import FileSpec
from wizard.plan_types import Plan
from wizard.session import SECRET_ENV

NAME = "vllm.env"


def env_file(plan: Plan, *, make_key: bool = True) -> FileSpec:
    """The environment file. An existing one keeps its values; ``apply`` merges line by line."""
    secrets = plan.session.secrets
    lines = wrap_comment(
        _(
            "Secrets of this server, read when it is started. Never put them anywhere else. One setting a line, without quotes."
        )
    )
    token = secrets.get("hf_token")
    if token:
        lines += [f"{SECRET_ENV['hf_token']}={token}"]
    else:
        lines += wrap_comment(
            _("For gated models: take the # off the next line and put your Hugging Face token behind the =.")
        )
        lines += [f"#{SECRET_ENV['hf_token']}="]
    if plan.value("access") == "network":
        key = secrets.get("api_key")
        if not key and make_key:
            import secrets as random_secrets

            # The one thing in all files that is not decided by the answers: it must not be guessable.
            key = random_secrets.token_urlsafe(32)
        lines += wrap_comment(_("Clients send this key as “Authorization: Bearer ...”."))
        lines += [f"{SECRET_ENV['api_key']}={key}"] if key else [f"#{SECRET_ENV['api_key']}="]
    return FileSpec(
        path=NAME,
        content=("\n".join(lines) + "\n").encode(),
        mode=0o600,
        secret=True,
        keep_existing=True,
        title=_("place for the Hugging Face token and the API key"),
    )

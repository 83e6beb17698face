"""Commands: what is typed becomes the arguments of a function, or settings that are checked once."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

from typer import Option

from fedrelax.cli.console import Talk, speaking
from fedrelax.cli.flags import (
    SettingsFile,
    TrustModel,
    flags_of,
    flags_of_function,
    flags_of_settings,
    keyword,
    split_help,
)
from fedrelax.cli.settings import LearningConfig, pairs_of
from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.files import read_text, why_unread

Config = TypeVar("Config", bound=LearningConfig)


def command_with(
    kind: type[Config],
) -> Callable[[Callable[[Config, Talk], None]], Callable[..., None]]:
    """Turn a function of settings into a command whose flags are the fields of ``kind``."""

    def decorate(run: Callable[[Config, Talk], None]) -> Callable[..., None]:
        def call(config: Path | None, trust: Sequence[str] | None, **flags: Any) -> None:
            from fedrelax.runtime.workers import using_backend

            with speaking(flags["debug"], quiet=bool(flags["json"])) as talk:
                settings = make_config(kind, config, flags, trust or ())
                talk.out.quiet = settings.json
                with using_backend(settings.backend, settings.address):
                    run(settings, talk)

        about_file = [keyword("config", SettingsFile), keyword("trust", TrustModel)]
        return _as_command(run, call, [*flags_of_settings(kind), *about_file])

    return decorate


def command(run: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of a ``Talk`` and of arguments and flags into a command."""

    def call(debug: bool, **flags: Any) -> None:
        with speaking(debug) as talk:
            if flags.get("trust"):
                look_here_for_modules()
            run(talk, **flags)

    debug = keyword("debug", Annotated[bool, Option("--debug", help="Show tracebacks.")], False)
    return _as_command(run, call, [*flags_of_function(run), debug])


def _as_command(
    run: Callable[..., None], call: Callable[..., None], parameters: list[Parameter]
) -> Callable[..., None]:
    """Give ``call`` what typer reads of a function: name, help, and parameters."""
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__dict__["__signature__"] = Signature(parameters)
    call.__name__, call.__doc__ = run.__name__, split_help(run.__doc__)[0]
    return call


def look_here_for_modules() -> None:
    """Let ``my_models:Model`` be found in the working directory, which cannot shadow installed modules."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def make_config(
    kind: type[Config], file: Path | None, flags: Mapping[str, Any], trust: Sequence[str] = ()
) -> Config:
    """Return the settings of a run: flags that were given (not None) win over the file.

    ``trust`` holds the ``module:name`` models that the file may name. A file may come from
    anywhere, and so may a module next to it; only what the user types is trusted.
    """
    from pydantic import TypeAdapter, ValidationError

    settings = {} if file is None else read_settings(kind, file)
    if file is not None:
        check_trusted(kind, f"--config {file}", settings, flags.get("model") is not None, trust)
    for name, value in flags.items():
        if name == "model_for" and value:
            old = pairs_of(settings.get(name, {}))
            settings[name] = {**old, **pairs_of(value)} if isinstance(old, dict) else old
        elif value is not None and value != []:
            settings[name] = value
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        sentences = dict.fromkeys(sentence(kind, one) for one in error.errors())
        source = "" if file is None else f" (see {file})"
        raise FedRelaxError("; ".join(sentences) + source) from None


def check_trusted(
    kind: type[LearningConfig],
    source: str,
    settings: Mapping[str, Any],
    model_is_typed: bool,
    trust: Sequence[str],
) -> None:
    """Refuse what a file from elsewhere must not decide.

    These are the settings that count only when typed, and ``module:name`` models, which run code,
    unless they are in ``trust``.
    """
    for name, flag in flags_of(kind).items():
        if flag.only_typed and name in settings:
            raise FedRelaxError(
                f"{source} sets {name} = {settings[name]!r}, which counts only when typed; remove it from "
                f"the file, and type {flag.named(name)} if you want it"
            )
    pairs = pairs_of(settings.get("model_for", {}))
    named = [*pairs.values()] if isinstance(pairs, dict) else []
    for name in [*named, None if model_is_typed else settings.get("model")]:
        if isinstance(name, str) and ":" in name and name not in trust:
            raise FedRelaxError(
                f"{source} names the model {name!r}, which runs the code of the module "
                f"{name.partition(':')[0]!r}; if you know that code and trust it, say so with "
                f"--trust {shlex.quote(name)}"
            )


def read_settings(kind: type[LearningConfig], file: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by their names in ``kind``."""
    try:
        lines = tomllib.loads(read_text(file, encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FedRelaxError(f"there is no file {file}; check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedRelaxError(f"--config {file} cannot be read ({why_unread(error)})") from error
    except (ValueError, RecursionError) as error:
        raise FedRelaxError(f"--config {file} is not valid TOML: {error}") from error
    names = flags_of(kind)
    settings: dict[str, Any] = {}
    for key, value in lines.items():
        name = key.replace("-", "_")
        if name not in names:
            keys = sorted(n.replace("_", "-") for n in names)
            hint = did_you_mean(key.replace("_", "-"), keys) or f"; known: {', '.join(keys)}"
            raise FedRelaxError(f"--config {file} has the unknown key {key!r}{hint}")
        if name in settings:
            raise FedRelaxError(f"--config {file} gives {key!r} twice; keep one of them")
        settings[name] = value
    return settings


def sentence(kind: type[LearningConfig], error: Any) -> str:
    """Turn one pydantic error into a sentence: which flag, what was found, what is needed."""
    name, message = str(error["loc"][0]), str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        return f"the setting {name!r} is not known"
    flag = flags_of(kind)[name]
    if error["type"] == "missing":
        return f"{kind.command} needs {flag.named(name)}: {flag.needed}"
    if name == "alpha":
        message = "give 'auto' or a finite number of at least 0"
    elif message.startswith("Input should be"):
        message = message.replace("Input should be", "it must be", 1)
    if message.startswith((f"{flag.argument}=", "--")):
        return message  # which names the argument or the flag itself
    value = "" if error["type"] == "value_error" else f" is {error['input']!r}"
    return f"{flag.named(name)}{value}: {message}"

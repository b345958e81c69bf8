"""Commands whose options are fields of a model, which defines name, type, bounds, default and help text.

Other options are parameters of the command's function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from serverdyno.plan.protocols.options import Option

    Model = TypeVar("Model", bound=BaseModel)

METAVARS = {"integer": "<int>", "number": "<float>", "path": "<path>"}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def add(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    fields: Callable[[], Mapping[str, FieldInfo]],
    *,
    epilog: str,
    cls: type[TyperCommand] = TyperCommand,
) -> None:
    """Add a command. It is called with `given`: the texts of the used options among `fields`.

    The models are imported only when the command itself is requested, because its line in a group's help needs no
    model.
    """

    @functools.cache
    def made() -> Any:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, epilog=epilog, cls=cls)(_with_options(command, fields()))
        return get_command(alone)

    class Deferred(TyperCommand):
        """The name and help of a command that is created when it is requested."""

        def make_context(self, *arguments: Any, **extra: Any) -> Any:
            return made().make_context(*arguments, **extra)

        def invoke(self, ctx: Any) -> Any:
            """Run the created command."""
            return ctx.command.invoke(ctx)

    def told() -> None: ...

    told.__doc__ = command.__doc__
    app.command(name, epilog=epilog, cls=Deferred)(told)


def checked(model: type[Model], given: Mapping[str, Any], command: str) -> Model:
    """Return the model that the options define. Raises PlanError with every invalid option."""
    from pydantic import ValidationError  # noqa: PLC0415

    from serverdyno import wording  # noqa: PLC0415
    from serverdyno.errors import PlanError  # noqa: PLC0415
    from serverdyno.plan.protocols.options import in_words, read_all  # noqa: PLC0415

    values, problems = read_all(given, model.model_fields)
    try:
        found = model.model_validate(values)
    except ValidationError as error:
        raised = error.errors(include_url=False)
        problems += [in_words(wording.refusal(each), model.model_fields) for each in raised]
    if problems:
        raise PlanError(command, problems)
    return found


def _with_options(command: Callable[..., None], fields: Mapping[str, FieldInfo]) -> Callable[..., None]:
    """Return a command with the options of `fields` instead of its parameter `given`."""
    own = inspect.signature(command, eval_str=True).parameters
    made = [_parameter(name, field, fields) for name, field in fields.items()]
    kept = [parameter.replace(kind=parameter.kind) for name, parameter in own.items() if name != "given"]

    def called(**values: Any) -> None:
        given = {name: values.pop(name) for name in fields}
        command(given={name: value for name, value in given.items() if value not in (None, [])}, **values)

    arguments = [parameter for parameter in kept if parameter.default is inspect.Parameter.empty]
    options = [parameter for parameter in kept if parameter not in arguments]
    ordered = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*arguments, *made, *options)
    ]
    called.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    called.__doc__ = command.__doc__
    called.__annotations__ = {}
    return called


def _parameter(name: str, field: FieldInfo, fields: Mapping[str, FieldInfo]) -> inspect.Parameter:
    from serverdyno.plan.protocols.options import in_words, option_of, type_of  # noqa: PLC0415

    option = option_of(name, field)
    schema = type_of(name, field).json_schema()
    shape = next(part for part in schema.get("anyOf", [schema]) if part.get("type") != "null")
    item = shape.get("items", shape)
    is_switch, is_repeated = shape.get("type") == "boolean", "items" in shape and not option.listed
    first, *others = option.names
    told = [*_default(field, first), *_bounds(item)]
    told += ["1-64 means 1,2,4 and so on, up to 64"] * (option.ranges == "doubling")
    told += ["as in 500ms, 10s or 1m30s"] * option.is_time + ["may be repeated"] * is_repeated
    sentence = in_words(field.description or "", fields)
    shown = typer.Option(
        *(f"{first}/{first.replace('--', '--no-', 1)}" if is_switch else first, *others),
        help=f"{sentence}  [{'; '.join(told)}]" if told else sentence,
        metavar=None if is_switch else _metavar(item, option),
        show_default=False,
    )
    kind = bool | None if is_switch else list[str] | None if is_repeated else str | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, shown]
    )


def _metavar(item: Mapping[str, Any], option: Option) -> str:
    if option.is_time:
        return "<time>"
    if "enum" in item:
        return f"[{'|'.join(map(str, item['enum']))}]"
    name = METAVARS.get(f"{item.get('format') or item.get('type')}", "<str>")
    return f"{name},..." if option.listed else name


def _default(field: FieldInfo, name: str) -> list[str]:
    default = None if field.is_required() else field.default
    return [f"default: {name if default is True else default}"] if default else []


def _bounds(item: Mapping[str, Any]) -> list[str]:
    found = {key: f"{item[key]:,}" for key in BOUNDS if key in item}
    if {"minimum", "maximum"} <= set(found):
        return [f"{found['minimum']} to {found['maximum']}"]
    return [f"{BOUNDS[key]} {bound}" for key, bound in found.items()]

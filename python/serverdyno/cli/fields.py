"""Commands whose options are fields of a model: name, type, bounds, default and sentence are stated there alone.

Not for: which fields (the models), nor for options that are no settings, which stand in a command's own signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.main import get_command

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from serverdyno.protocols.options import Option

    Model = TypeVar("Model", bound=BaseModel)

METAVARS = {int: "<int>", float: "<float>", Path: "<path>", str: "<str>"}
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def add(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    fields: Callable[[], Mapping[str, FieldInfo]],
    *,
    epilog: str,
    cls: type[TyperCommand] = TyperCommand,
) -> None:
    """Add a command that is called with `given`: the texts of the options of `fields`, as far as there are any.

    The models are imported once the command itself is asked for: its line in a help needs none of them.
    """

    def made() -> Any:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, epilog=epilog, cls=cls)(_with_options(command, fields()))
        return get_command(alone)

    class Deferred(TyperCommand):
        """The name and the help of a command that is made once it is asked for."""

        def make_context(self, *arguments: Any, **extra: Any) -> Any:
            return made().make_context(*arguments, **extra)

        def invoke(self, ctx: Any) -> Any:
            """Run the command that was made, also if it is the only one."""
            return ctx.command.invoke(ctx)

    def told() -> None: ...

    told.__doc__ = command.__doc__
    app.command(name, epilog=epilog, cls=Deferred)(told)


def checked(model: type[Model], given: Mapping[str, Any], command: str) -> Model:
    """Return the model that the options say. Raises PlanError with every mistaken option."""
    from pydantic import ValidationError  # noqa: PLC0415

    from serverdyno import wording  # noqa: PLC0415
    from serverdyno.errors import PlanError  # noqa: PLC0415
    from serverdyno.protocols.options import in_words, read_all  # noqa: PLC0415

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
    """Return a command with the options of `fields` in place of its parameter `given`."""
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
    from serverdyno.protocols.options import option_of  # noqa: PLC0415

    option = option_of(name, field)
    kinds = set(_kinds(field.annotation))
    is_list = list in kinds and not option.listed
    first, *others = option.names
    names = [f"{first}/{first.replace('--', '--no-', 1)}" if bool in kinds else first, *others]

    shown = typer.Option(
        *names,
        help=_help(field, option, fields),
        metavar=None if bool in kinds else _metavar(field.annotation, option),
        show_default=False,
    )
    kind = bool | None if bool in kinds else list[str] | None if is_list else str | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, shown]
    )


def _kinds(annotation: Any) -> list[Any]:
    """Return the types in an annotation such as `list[int] | None`."""
    if annotation is None or annotation is type(None):
        return []
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return [Literal]
    inner = [kind for part in get_args(annotation) for kind in _kinds(part)]
    return [list, *inner] if get_origin(annotation) is list else inner or [annotation]


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _metavar(annotation: Any, option: Option) -> str:
    if option.is_time:
        return "<time>"
    if choices := _choices(annotation):
        return f"[{'|'.join(choices)}]"
    kinds = _kinds(annotation)
    name = next((METAVARS[kind] for kind in kinds if kind in METAVARS), "<str>")
    return f"{name},..." if option.listed else name


def _help(field: FieldInfo, option: Option, fields: Mapping[str, FieldInfo]) -> str:
    """Return the field's sentence, its default and its bounds."""
    from pydantic_core import PydanticUndefined  # noqa: PLC0415

    from serverdyno.protocols.options import in_words  # noqa: PLC0415

    default = field.get_default(call_default_factory=True)
    default = None if default is PydanticUndefined else default
    told = [f"default: {option.names[0] if default is True else default}"] if default else []
    bounds = {
        key: f"{getattr(rule, key):,}" for rule in _rules(field) for key in BOUNDS if hasattr(rule, key)
    }
    if {"ge", "le"} <= set(bounds):
        told.append(f"{bounds.pop('ge')} to {bounds.pop('le')}")
    told += [f"{BOUNDS[key]} {bound}" for key, bound in bounds.items()]
    sentence = in_words(field.description or "", fields)
    if option.is_time:
        told.append("as in 10s or 2m")
    if list in _kinds(field.annotation) and not option.listed:
        told.append("may be repeated")
    return f"{sentence}  [{'; '.join(told)}]" if told else sentence


def _rules(field: FieldInfo) -> Iterator[Any]:
    """Yield what bounds a field: rules of its own, and of the type in its annotation."""
    yield from field.metadata
    for part in (field.annotation, *get_args(field.annotation)):
        if get_origin(part) is Annotated:
            for rule in get_args(part)[1:]:
                yield from getattr(rule, "metadata", ())

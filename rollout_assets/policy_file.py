"""Reading a YAML file into a pydantic model, with errors that name line and key and say what is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from rollout_assets.core.errors import RunDataError

Model = TypeVar("Model", bound=BaseModel)
#: Where an error is: keys of mappings and positions in lists, from the outside in.
Place = Sequence[int | str]


def read_model(path: Path, model: type[Model], what: str) -> Model:
    """Read a file; an empty one gives the model's defaults.

    Args:
        path: The YAML file.
        model: What it must hold.
        what: What it is called in errors; their code is `E-` and this in capitals.

    Raises:
        RunDataError: The file cannot be read, is no YAML, has a key twice, or does not fit the model.
    """
    code = f"E-{what.upper()}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}; put a readable file there, or name another one"
        raise RunDataError(code, reason, path=path) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise RunDataError(code, f"cannot be read: {error}; save it as UTF-8", path=path, line=line) from error
    try:
        tree, value = _parse(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RunDataError(code, f"is no YAML: {error.reason}", path=path, line=line) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise RunDataError(
            code, f"is no YAML: {error.problem}", path=path, line=None if mark is None else mark.line + 1
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RunDataError(code, f"is no YAML: {error}", path=path) from error
    try:
        return model.model_validate({} if value is None else value)
    except ValidationError as error:
        problems = sorted(_problem(tree, model, problem) for problem in error.errors())
        first = problems[0][0]
        told = "; ".join(text if line == first else f"line {line}: {text}" for line, text in problems)
        raise RunDataError(code, f"is no {what}: {told}", path=path, line=first) from error


def _parse(text: str) -> tuple[yaml.Node | None, Any]:
    """The tree of the file, which knows its lines, and its value."""
    loader = yaml.SafeLoader(text)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None, None
        _refuse_duplicate_keys(tree, set())
        return tree, loader.construct_document(tree)
    finally:
        loader.dispose()


def _refuse_duplicate_keys(node: yaml.Node, seen: set[int]) -> None:
    """YAML takes the last of two equal keys without a word."""
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicate_keys(item, seen)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and first.setdefault(key.value, key) is not key:
                line = first[key.value].start_mark.line + 1
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is in line {line} already; keep one of the two",
                    problem_mark=key.start_mark,
                )
            _refuse_duplicate_keys(value, seen)


def _problem(tree: yaml.Node | None, model: type[BaseModel], problem: Any) -> tuple[int, str]:
    """The line of a validation error, and what is wrong there."""
    line, place = _find(tree, problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    allowed = ", ".join(_fields_at(model, problem["loc"][:-1] if problem["type"] == "extra_forbidden" else place))
    if problem["type"] == "extra_forbidden":
        message = f"{message}; allowed here: {allowed}"
    elif problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = f"must be a mapping (`key: value`), not {_shown(problem)}" + (allowed and f"; keys: {allowed}")
    elif problem["type"] == "tuple_type":
        message = f"must be a list, not {_shown(problem)}"
    return line, f"{'.'.join(map(str, place)) or 'the file'}: {message}"


def _shown(problem: Any) -> str:
    text = repr(problem["input"])
    return text if len(text) <= 60 else f"{text[:60]}…"


def _find(tree: yaml.Node | None, place: Place) -> tuple[int, Place]:
    """The line of a place, and the part of the place that the file has, with the key that is missing there if any."""
    node, line, found = tree, 1, 0
    for step in place:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == step), None)
            if pair is None:
                return line, [s for s in place[: found + 1] if s != "[key]"]
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
        found += 1
    return line, place[:found]


def _fields_at(model: type[BaseModel], place: Place) -> Iterator[str]:
    """The fields of the model at a place; none where no model is."""
    at: Any = model
    for name in (step for step in place if isinstance(step, str)):
        field = at.model_fields.get(name)
        at = field and next(_models_in(field.annotation), None)
        if at is None:
            return
    yield from at.model_fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)

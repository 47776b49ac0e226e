"""Models of histories: the checkers of `check --model NAME`, by the model names of knossos and elle-cli."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.registry import load

if TYPE_CHECKING:
    from schemaquake.checkers.linearizability.models import HistoryModel, Mutex, Register

__all__ = ["MODELS", "ModelOptions", "checker_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options of a model on the command line."""

    initial: str | None = None
    """JSON of the value before the first operation."""
    failed_cas: Literal["ignored", "informative"] = "ignored"
    null_reads: Literal["value", "unknown"] = "value"
    consistency_models: tuple[str, ...] = ()
    linearizable_keys: bool = False
    memory_bytes: int = 1 << 29

    def __post_init__(self) -> None:
        for name, known in (("failed_cas", ("ignored", "informative")), ("null_reads", ("value", "unknown"))):
            if getattr(self, name) not in known:
                option = name.replace("_", "-")
                raise PlanError(f'--{option} is {" or ".join(known)}, not "{getattr(self, name)}"')

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options, as on the command line, that are not the default, but for the limit of memory."""
        changed = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        return tuple(f"--{name.replace('_', '-')}" for name in changed if name != "memory_bytes")

    @property
    def levels(self) -> tuple[str, ...]:
        """The consistency models to check transactions against: the strictest, unless others are named."""
        return self.consistency_models or ("strict-serializable",)

    def start(self, kind: type, default: JSON) -> Any:
        """Parse the initial value. Raises PlanError if it is no JSON, or not of that kind."""
        if self.initial is None:
            return default
        try:
            value = orjson.loads(self.initial)
        except orjson.JSONDecodeError:
            raise PlanError(f'--initial is JSON, and "{self.initial}" is none') from None
        if not isinstance(value, kind):
            raise PlanError(f"--initial {self.initial} cannot be the initial value of this model")
        return value


_OBJECTS: Final = frozenset(
    {"register", "cas-register", "multi-register", "mutex", "fifo-queue", "unordered-queue", "set", "counter"}
)
"""Sequential objects, for `--checker linearizable`."""


def _object(model: str, options: ModelOptions) -> Register | Mutex | HistoryModel:
    from schemaquake.checkers.linearizability import models  # noqa: PLC0415 - as in `_checker`

    match model:
        case "register" | "cas-register":
            return models.Register(
                start=options.start(object, None),
                swaps=model == "cas-register",
                failed_cas=options.failed_cas,
                null_reads=options.null_reads,
            )
        case "multi-register":
            return models.multi_register(options.start(dict, None), null_reads=options.null_reads)
        case "mutex":
            return models.Mutex()
        case "fifo-queue":
            return models.fifo_queue()
        case "unordered-queue":
            return models.unordered_queue()
        case "set":
            return models.growing_set()
        case "counter":
            return models.counter(options.start(int, 0))
    raise AssertionError(model)


def _linearizable(model: Register | Mutex | HistoryModel, options: ModelOptions) -> Any:
    return _checker("linearizable", model=model, memory_bytes=options.memory_bytes)


def _checker(name: str, **options: Any) -> Any:
    """Return the registered checker with these options. It is imported here, so that other models' checkers need not be."""
    return replace(load("checkers", name), **options)


_CHECKERS: Final[Mapping[str, Callable[[ModelOptions], Any]]] = {
    "set": lambda _: _checker("set-full"),
    "set-full": lambda _: _checker("set-full"),
    "counter": lambda options: _checker("counter", start=options.start(int, 0)),
    "bank": lambda options: _checker("bank", total=options.start(int, None), transfers_only=False),
    "long-fork": lambda _: _checker("long-fork"),
    "unique-ids": lambda _: _checker("unique-ids"),
    "list-append": lambda options: _checker("list-append", models=options.levels),
    "rw-register": lambda options: _checker(
        "rw-register", models=options.levels, linearizable_keys=options.linearizable_keys
    ),
    "read-committed": lambda _: _checker("weak-isolation", models=("read-committed",)),
    "read-atomic": lambda _: _checker("weak-isolation", models=("read-atomic",)),
    "causal": lambda _: _checker("weak-isolation", models=("causal",)),
}
"""Models with a checker of their own, which is the default for them."""

MODELS: Final = tuple(sorted({*_OBJECTS, *_CHECKERS}))


def checker_of(model: str, *, checker: str | None, options: ModelOptions) -> Checker:
    """Return the checker for a model. `package.module:name` is a model of the user's own, a value or a class of it.

    Raises PlanError for an unknown model, and for a checker that does not judge it.
    """
    if ":" in model:
        own_checker: Checker = _linearizable(_own_model(model), options)
        return own_checker
    if model not in MODELS:
        raise PlanError(f'unknown model "{model}". Known: {", ".join(MODELS)}, or package.module:name.')
    # Checkers are frozen values whose names are only read, but mypy requires the protocol's to be assignable.
    model_checker: Any = _CHECKERS[model](options) if model in _CHECKERS else None
    judge: Any = None
    if model_checker is not None and checker in {None, model_checker.name, model}:
        judge = model_checker
    elif model in {"list-append", "rw-register"} and checker == "weak-isolation":
        judge = _checker("weak-isolation", models=options.consistency_models or ("causal",))
    elif model in _OBJECTS and checker in {None, "linearizable"}:
        judge = _linearizable(_object(model, options), options)
    if judge is not None:
        _refuse_unknown_levels(judge.name, options)
        found: Checker = judge
        return found
    raise PlanError(f'checker "{checker}" does not judge the model "{model}"')


def _refuse_unknown_levels(checker: str, options: ModelOptions) -> None:
    """Raise PlanError for a consistency model that the checker does not know, which would else be the crash of a check."""
    if not options.consistency_models:  # nothing is loaded to look at what was not asked for
        return
    if checker in {"list-append", "rw-register"}:
        from schemaquake.checkers.elle.models import model as look_up  # noqa: PLC0415 - as in `_checker`
    elif checker == "weak-isolation":
        from schemaquake.checkers.weak_isolation.levels import level as look_up  # type: ignore[assignment]  # noqa: PLC0415
    else:
        return
    for name in options.consistency_models:
        look_up(name)


def _own_model(name: str) -> HistoryModel:
    from schemaquake.checkers.linearizability.models import HistoryModel  # noqa: PLC0415 - as in `_checker`

    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PlanError(f'the model "{name}" cannot be loaded: {error}') from error
    model = found() if inspect.isclass(found) else found
    if not isinstance(model, HistoryModel):
        raise PlanError(
            f'"{name}" is no model: it lacks methods of schemaquake.checkers.linearizability.models.HistoryModel'
        )
    return model

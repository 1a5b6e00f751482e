"""The settings of a training run: what each one means, its default and what it may be, in one table.

`TrainConfig()` is the default run on streams; `dataset/configs/` holds complete commented
files. Nothing here needs torch. Every check raises WorkflowError with name, range and value.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import yaml

from thesis_lib._kernels.rules import RULES
from thesis_lib.agent_file import NETWORKS, PROBLEMS
from thesis_lib.feature_sets import FEATURE_SETS
from thesis_lib.files import read_text
from thesis_lib.generators import MAX_TASKS
from thesis_lib.rewards import REWARDS
from thesis_lib.workflow import WorkflowError

STAGE_ORDERS = ("ppo_distill", "distill_ppo")
BASE_RULES = tuple(rule for rule in RULES if rule != "random")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
COMMENT_COLUMN = 30  # where the comments of `to_yaml` begin

# The article's seven key settings of PPO; its batch of 4000 steps is n_envs x rollout_length.
ARTICLE_PPO = {"rollout_length": 200, "n_envs": 20, "minibatch_size": 64, "epochs": 10, "clip": 0.2,
               "value_clip": 10.0, "entropy": 0.01}  # fmt: skip


# --- kinds of settings: a default, a one-line meaning, and what turns a value into a checked one ----------


def _setting(default: Any, meaning: str, read: Callable[[Any], Any]) -> Any:
    return field(default=default, metadata={"meaning": meaning, "read": read})


def _whole(default: int, meaning: str, low: int, high: int | None = None) -> Any:
    allowed = f"a whole number from {low} to {high}" if high is not None else f"a whole number of at least {low}"

    def read(value: Any) -> int:
        number = _as_number(value)
        if number is None or number != int(number) or number < low or (high is not None and number > high):
            raise ValueError(allowed)
        return int(number)

    return _setting(default, meaning, read)


def _number(default: float | None, meaning: str, low: float, high: float = math.inf, above: bool = False,
            optional: bool = False) -> Any:  # fmt: skip
    """above: `low` itself is not allowed; optional: None, written `null` or `none`, is."""
    allowed = f"a number {'above' if above else 'of at least'} {low:g}"
    allowed += f" and at most {high:g}" if high < math.inf else ""
    allowed += ", or null" if optional else ""

    def read(value: Any) -> float | None:
        if optional and (value is None or (isinstance(value, str) and value.lower() in ("null", "none", "~"))):
            return None
        number = _as_number(value)
        if number is None or number < low or number > high or (above and number == low):
            raise ValueError(allowed)
        return float(number)

    return _setting(default, meaning, read)


def _choice(default: str, meaning: str, names: Iterable[str]) -> Any:
    names = tuple(names)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return _setting(default, meaning, read)


def _file_name(default: str, meaning: str) -> Any:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise ValueError("a text of up to 60 letters, digits, '.', '_' and '-' that begins with a letter or digit")
        return value

    return _setting(default, meaning, read)


def _as_number(value: Any) -> int | float | None:
    """A number of sensible size, None for anything else. Texts are read too, since YAML takes 2e-3 for one."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, bool) or not isinstance(value, Real) or abs(value) >= 2**63 or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, Integral) else float(value)


# --- the settings -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainConfig:
    """All settings of one training run; immutable, checked when made (WorkflowError)."""

    # fmt: off
    name: str = _file_name("stream", "name of the agent; its file is NAME.npz")
    seed: int = _whole(0, "fixes every random number of the run", 0, 2**32 - 1)

    problem: str = _choice("stream", f"what is drawn for each episode: {', '.join(PROBLEMS)}", PROBLEMS)
    workflows_min: int = _whole(8, "stream: fewest workflows of an episode", 1, 10_000)
    workflows_max: int = _whole(20, "stream: most workflows of an episode", 1, 10_000)
    load_min: float = _number(0.8, "stream: lowest load of the scarcest resource (1 = just full)", 0, 10, above=True)
    load_max: float = _number(0.98, "stream: highest load", 0, 10, above=True)
    n_tasks_min: int = _whole(10, "thesis: fewest tasks of the DAG", 1, MAX_TASKS)
    n_tasks_max: int = _whole(50, "thesis: most tasks of the DAG", 1, MAX_TASKS)

    network: str = _choice("pair_gcn", f"network: {', '.join(NETWORKS)} (the article's: one cluster size)", NETWORKS)
    features: str = _choice("full", f"what the network sees: {', '.join(FEATURE_SETS)}", FEATURE_SETS)
    hidden: int = _whole(32, "numbers that describe a task inside the network", 1, 1024)
    score_hidden: int = _whole(128, "width of the layers that score (task, VM) pairs", 1, 1024)
    reward: str = _choice("potential", "a reward of thesis_lib.rewards", REWARDS)
    reward_scale: float = _number(1.0, "multiplies rewards; a critic learns numbers near 1 best", 0, above=True)
    base_rule: str = _choice("srw_patient", "rule to start from; reward potential and rollouts refer to it "
                             "(thesis: critical_path)", BASE_RULES)

    clone_decisions: int = _whole(6000, "decisions of the base rule that the network imitates first; 0 = none", 0)
    clone_epochs: int = _whole(12, "passes over them", 1, 1000)

    stage_order: str = _choice("ppo_distill", "what comes first after cloning: ppo_distill, distill_ppo", STAGE_ORDERS)
    total_steps: int = _whole(250_000, "decisions of all environments in PPO; 0 = no PPO", 0)
    n_envs: int = _whole(16, "environments; n_envs x rollout_length = batch (article, key setting: 4000 = 20 x 200)",
                         1, 4096)
    rollout_length: int = _whole(512, "steps of each environment per update (article, key setting: 200)", 2)
    minibatch_size: int = _whole(1024, "steps per gradient step (article, key setting: 64)", 2)
    epochs: int = _whole(4, "passes over the batch per update (article, key setting: 10)", 1, 1000)
    clip: float = _number(0.2, "most that a probability ratio leaves 1 by (article, key setting: 0.2)", 0, 1,
                          above=True)
    value_clip: float | None = _number(None, "most that a value estimate may change; null = any "
                                       "(article, key setting: 10)", 0, above=True, optional=True)
    entropy: float = _number(0.002, "weight of the entropy bonus (article, key setting: 0.01)", 0)
    learning_rate: float = _number(2e-3, "Adam's step size at the start, annealed towards 0", 0, 1, above=True)
    gamma: float = _number(0.9, "discount per decision: 0.9 looks about 10 decisions ahead, 0.99 about 100", 0, 1)
    gae_lambda: float = _number(0.5, "advantages: 0 trusts the critic after one step (bias), 1 sums all rewards "
                                  "(variance)", 0, 1)
    value_coef: float = _number(0.5, "weight of the critic's loss", 0)
    max_grad_norm: float = _number(0.5, "longer gradients are shortened to this norm", 0, above=True)

    distill_rounds: int = _whole(2, "rounds of: label with search, learn the labels; 0 = none", 0, 100)
    labels_per_round: int = _whole(40_000, "decisions that the search labels in a round", 1)
    candidates: int = _whole(7, "actions that the search compares per decision", 2, 1000)
    futures: int = _whole(8, "sampled futures (thesis: lists) per action; the standard error needs two", 2, 10_000)
    distill_margin: float = _number(0.25, "what it must save to leave the base rule, in units of the labels' noise", 0)
    distill_epochs: int = _whole(6, "passes over the labels of all rounds so far", 1, 1000)
    distill_learning_rate: float = _number(2e-3, "Adam's step size, decayed towards 0", 0, 1, above=True)

    validation_streams: int = _whole(200, "validation instances; on 40 the best checkpoint looks 1-2 % too good", 1,
                                     1_000_000)
    curve_streams: int = _whole(40, "fewer instances for the points of the curve; too few to choose by", 1, 1_000_000)
    validate_every: int = _whole(50_000, "steps of PPO between two points of the curve", 1)
    checkpoint_every: float = _number(60.0, "seconds between two checkpoints, from which --resume goes on", 0)
    # fmt: on

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            try:
                object.__setattr__(self, setting.name, setting.metadata["read"](value))
            except ValueError as error:
                raise WorkflowError(f"{setting.name} must be {error}, got {_short(value)}") from None
        for low, high in (("workflows_min", "workflows_max"), ("load_min", "load_max"), ("n_tasks_min", "n_tasks_max")):
            if getattr(self, low) > getattr(self, high):
                raise WorkflowError(
                    f"{low} must be at most {high}, got {getattr(self, low):g} and {getattr(self, high):g}"
                )
        if self.minibatch_size > self.batch_size:
            raise WorkflowError(
                f"minibatch_size must be at most n_envs x rollout_length = {self.batch_size}, got {self.minibatch_size}"
            )

    @property
    def batch_size(self) -> int:
        """Steps that PPO collects before each update."""
        return self.n_envs * self.rollout_length

    # --- other forms ------------------------------------------------------------------------

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> "TrainConfig":
        """The defaults changed by `settings`; an unknown name is refused with the nearest known one."""
        _refuse_unknown(settings)
        return cls(**settings)

    @classmethod
    def from_yaml(cls, path: str | Path) -> "TrainConfig":
        """Read `key: value` lines; what is absent keeps its default. WorkflowError names the file."""
        try:
            return cls.from_mapping(_parse_yaml(read_text(Path(path))))
        except WorkflowError as error:
            raise WorkflowError(f"{path}: {error}") from None

    def with_changes(self, changes: Iterable[str]) -> "TrainConfig":
        """A copy changed by texts like "entropy=0.01", as --set gives them; checked when all are in."""
        values: dict[str, str] = {}
        for change in changes:
            key, equals, value = change.partition("=")
            key = key.strip()
            if not equals:
                raise WorkflowError(f"a change must look like key=value, got {_short(change)}")
            if key in values:
                raise WorkflowError(f"{key} is changed twice; keep one")
            values[key] = value.strip()
        _refuse_unknown(values)
        return replace(self, **values)

    def differences(self, other: "TrainConfig") -> str:
        """Where `other` differs, in words: "seed 0 -> 1, epochs 4 -> 10"; empty when they are equal."""
        pairs = ((s.name, getattr(self, s.name), getattr(other, s.name)) for s in fields(self))
        return ", ".join(f"{name} {mine} -> {theirs}" for name, mine, theirs in pairs if mine != theirs)

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name: plain texts, numbers and None, which JSON can hold."""
        return asdict(self)

    def to_yaml(self) -> str:
        """All settings with their meanings; `from_yaml` reads it back to an equal config."""
        blocks = {"problem", "network", "clone_decisions", "stage_order", "distill_rounds", "validation_streams"}
        lines = []
        for setting in fields(self):
            if setting.name in blocks:
                lines.append("")
            entry = yaml.safe_dump({setting.name: getattr(self, setting.name)}, width=math.inf).strip()
            lines.append(f"{entry:<{COMMENT_COLUMN}}  # {setting.metadata['meaning']}")
        return "\n".join(lines) + "\n"


def meaning_of(key: str) -> str:
    """The one-line meaning of a setting."""
    return TrainConfig.__dataclass_fields__[key].metadata["meaning"]


def _refuse_unknown(keys: Iterable[Any]) -> None:
    known = [setting.name for setting in fields(TrainConfig)]
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
            raise WorkflowError(f"unknown setting {_short(key)}; {hint}")


def _parse_yaml(text: str) -> dict[str, Any]:
    """The mapping that a YAML text holds; a key that occurs twice is refused, which PyYAML would not do."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        settings = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise WorkflowError(f"not valid YAML: {error.problem}{line}; write one `key: value` per line") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # an impossible date, `!!int ""`, say
        raise WorkflowError(f"not valid YAML: {error}; write one `key: value` per line") from None
    except RecursionError:
        raise WorkflowError("nested too deeply; write one `key: value` per line") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise WorkflowError("holds no settings; write one `key: value` per line")
    keys = [key.value for key, _ in root.value]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise WorkflowError(f"the setting {_short(twice)} occurs twice; keep one")
    return settings


def _short(value: Any) -> str:
    """A value for an error message; a list or the like by its kind only, since aliases may make it endless."""
    if isinstance(value, int) and abs(value) >= 2**63:
        return "an integer of many digits"
    if value is None or isinstance(value, (str, Real)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"

"""Modules import one way: data flows downwards, nothing imports from a lower line."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "thesis_lib"

# From top to bottom; names of one line may import each other.
LINES = [
    ["files", "workflow", "strict_json", "cluster"],
    ["ranks"],
    ["formats"],
    ["generators"],
    ["set_file"],
    ["workload", "dataset"],
    ["schedule", "validate"],
    ["_kernels", "plain_simulator", "simulator"],
    ["observation", "feature_sets"],
    ["agent_file"],
    ["policy", "masked_policy"],
    ["agents"],
    ["search"],
    ["schedulers"],
    ["rewards"],
    ["env"],
    ["vec_env"],
    ["train_config", "problems", "checkpoints"],
    ["comparison", "training_log"],
    ["cloning", "ppo", "distill"],
    ["training"],
    ["tuning", "tuning_engines", "model_zoo"],
    ["curves", "agent_results"],
    ["plots"],
    ["learning_figures"],
    ["figures", "speed", "notebook"],
    ["commands"],
    ["__main__"],
]
LINE_OF = {name: i for i, line in enumerate(LINES) for name in line}
# Imports inside functions that may look down, each with its reason.
LAZY = {
    ("formats", "workload"),  # a trace file holds a workload
    ("workload", "formats"),  # Workload.from_dir reads files
}


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Names of the thesis_lib modules that run-time imports of a file mention."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        node
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and getattr(guard.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(guard)
    }
    found = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thesis_lib"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("thesis_lib.")}
    return found


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_imports_from_a_lower_line(path):
    module = module_of(path)
    assert module in LINE_OF, f"{module} stands on no line of this test"
    below = {
        other
        for other in imports(path)
        if other in LINE_OF and LINE_OF[other] > LINE_OF[module] and (module, other) not in LAZY
    }
    assert not below, f"{path.name} imports {below} from below"


def test_plain_import_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import thesis_lib; s = time.perf_counter() - t\n"
        "heavy = {'torch', 'matplotlib', 'pandas', 'ortools', 'numba', 'scipy', 'networkx'} & set(sys.modules)\n"
        "print(s, sorted(heavy))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, heavy = out.split(maxsplit=1)
    assert float(seconds) < 1
    assert heavy.strip() == "[]"


def test_torch_is_not_needed_for_the_command_line_nor_for_agents():
    code = (
        "import sys; import thesis_lib.__main__ as m; m.build_parser()\n"
        "import thesis_lib.agents, thesis_lib.schedulers.learned; print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"

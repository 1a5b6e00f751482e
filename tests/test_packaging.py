"""What is installed is what is here: every module, the fonts, and the Python version that the code needs."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "thesis_lib"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def folders_with_modules() -> set[str]:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    return {".".join(folder.relative_to(ROOT).parts) for folder in folders}


def test_every_folder_of_modules_is_a_package():
    assert [
        name for name in folders_with_modules() if not (ROOT / Path(*name.split(".")) / "__init__.py").is_file()
    ] == []


def test_every_package_is_found():
    setuptools = pytest.importorskip("setuptools", reason="the build tool is not installed here")
    find = SETTINGS["tool"]["setuptools"]["packages"]["find"]
    assert find == {"include": ["thesis_lib*"], "namespaces": False}
    assert set(setuptools.find_packages(str(ROOT), include=find["include"])) == folders_with_modules()


def test_every_asset_is_package_data():
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["thesis_lib"]
    installed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assets = {
        path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc", ".nbi", ".nbc")
    }
    assert PACKAGE / "assets" / "fonts" / "ThesisHeiSC-Regular.ttf" in assets
    assert assets <= installed


def test_the_stated_python_is_the_one_that_the_environment_file_takes():
    assert SETTINGS["project"]["requires-python"] == ">=3.11"
    assert "- python=3.11\n" in (ROOT / "environment.yml").read_text(encoding="utf-8")


def test_the_package_says_what_it_is():
    import thesis_lib

    assert thesis_lib.__doc__

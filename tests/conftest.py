"""Fixtures that several test files use."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The folder of public sample files beside the checkout; tests that need it skip without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of public sample files is not beside the checkout")
    return SHARED_DATA

"""What is installed, read from dist-info folders as uv and pip write them."""

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.wheels import Distribution, installed, literals, normalise, site_packages

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Version: not this one
Classifier: Programming Language :: Python
Requires-Dist: numpy
Description-Content-Type: text/markdown
License: one line
        Name: a line that goes on

Name: in-the-description
Version: 0
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: bdist_wheel
Root-Is-Purelib: false
Tag: cp312-cp312-manylinux_2_27_aarch64
Tag: cp312-cp312-manylinux_2_28_aarch64
"""


def plant(site, name, version, folder=None, **files):
    path = site / (folder or f"{name}-{version}.dist-info")
    path.mkdir(parents=True)
    files = {"METADATA": METADATA.format(name=name, version=version), "WHEEL": WHEEL, **files}
    for file, text in files.items():
        if text is not None:
            (path / file.replace("_txt", ".txt")).write_text(text)
    return path


def test_a_distribution(tmp_path):
    scripts = "[console_scripts]\nTorchRun = torch.run:main\nother=torch:x [extra]\n\n[torchrun.logs]\na = b:c\n"
    path = plant(tmp_path, "torch", "2.11.0", entry_points_txt=scripts)
    (tmp_path / "torch").mkdir()
    (tmp_path / "typing_extensions.py").write_text("")
    assert installed(str(tmp_path)) == {
        "torch": Distribution(
            name="torch",
            version="2.11.0",
            path=str(path),
            tags=("cp312-cp312-manylinux_2_27_aarch64", "cp312-cp312-manylinux_2_28_aarch64"),
            scripts={"TorchRun": "torch.run:main", "other": "torch:x [extra]"},
        )
    }


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("nvidia-npp", "nvidia_npp-13.0.1.2.dist-info"),
        ("NVIDIA.NPP", "NVIDIA.NPP-13.0.1.2.dist-info"),
        ("nvidia__npp", "nvidia__npp-13.0.1.2.dist-info"),
    ],
)
def test_names_are_normalised(tmp_path, name, folder):
    plant(tmp_path, name, "13.0.1.2", folder)
    assert list(installed(str(tmp_path))) == ["nvidia-npp"] == [normalise(name)]


def test_two_of_one_name_are_reported(tmp_path):
    old, new = plant(tmp_path, "numpy", "2.2.0"), plant(tmp_path, "NumPy", "2.3.0", "numpy-2.3.0.dist-info")
    found = installed(str(tmp_path))["numpy"]
    assert (found.version, found.path, found.duplicates) == ("2.3.0", str(new), (str(old),))


def test_without_the_parts_that_may_be_absent(tmp_path):
    plant(tmp_path, "uv", "0.10.0", WHEEL=None)
    found = installed(str(tmp_path))["uv"]
    assert (found.tags, found.scripts, found.duplicates) == ((), {}, ())


@pytest.mark.parametrize("metadata", [None, "", "Metadata-Version: 2.4\nName: torch\n"])
def test_an_installation_that_was_not_finished(tmp_path, metadata):
    plant(tmp_path, "torch", "2.11.0", METADATA=metadata)
    with pytest.raises(ArmstageError, match=r"torch-2\.11\.0\.dist-info/METADATA` holds no Name and Version"):
        installed(str(tmp_path))


def test_entry_points_that_are_none(tmp_path):
    plant(tmp_path, "torch", "2.11.0", entry_points_txt="torchrun = torch:main\n")
    with pytest.raises(ArmstageError, match=r"entry_points\.txt` is not an entry points file"):
        installed(str(tmp_path))


def test_an_absent_folder(tmp_path):
    with pytest.raises(ArmstageError, match="Failed to list"):
        installed(str(tmp_path / "absent"))


class TestLiterals:
    TORCH = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
hip: Optional[str] = None
git_version = '70d99e998b4955e0049d13a98d77ae1b14db1f45'
computed = 'a' + 'b'
left = right = 7
"""

    def test_the_version_file_of_torch(self, tmp_path):
        (tmp_path / "version.py").write_text(self.TORCH)
        assert literals(str(tmp_path / "version.py")) == {
            "__version__": "2.11.0+cu130",
            "debug": False,
            "cuda": "13.0",
            "hip": None,
            "git_version": "70d99e998b4955e0049d13a98d77ae1b14db1f45",
            "left": 7,
            "right": 7,
        }

    def test_nothing_is_executed(self, tmp_path):
        marker = tmp_path / "executed"
        (tmp_path / "version.py").write_text(f"__version__ = '1'\nopen({str(marker)!r}, 'w')\n")
        assert literals(str(tmp_path / "version.py")) == {"__version__": "1"}
        assert not marker.exists()

    def test_an_absent_file(self, tmp_path):
        assert literals(str(tmp_path / "version.py")) == {}

    @pytest.mark.parametrize("text", ["<html>", "__version__ = ", "a\0b", "(" * 5000])
    def test_what_is_not_python(self, tmp_path, text):
        (tmp_path / "version.py").write_text(text)
        with pytest.raises(ArmstageError, match=r"version\.py` is not Python source"):
            literals(str(tmp_path / "version.py"))


class TestSitePackages:
    @pytest.mark.parametrize("python", ["python3.12", "python3.13t", "python3.9"])
    def test_of_an_environment(self, tmp_path, python):
        folder = tmp_path / "lib" / python / "site-packages"
        folder.mkdir(parents=True)
        assert site_packages(str(tmp_path)) == str(folder)

    def test_a_folder_that_pip_filled(self, tmp_path):
        plant(tmp_path, "torch", "2.11.0")
        assert site_packages(str(tmp_path)) == str(tmp_path)

    def test_none(self, tmp_path):
        with pytest.raises(ArmstageError, match="No Python environment at"):
            site_packages(str(tmp_path))

    def test_of_two_pythons(self, tmp_path):
        for python in ("python3.12", "python3.13"):
            (tmp_path / "lib" / python / "site-packages").mkdir(parents=True)
        with pytest.raises(ArmstageError, match=r"more than one Python: .*python3\.12.*python3\.13"):
            site_packages(str(tmp_path))

    def test_of_debians_own_python(self, tmp_path):
        folder = tmp_path / "lib/python3.12/dist-packages"
        folder.mkdir(parents=True)
        assert site_packages(str(tmp_path)) == str(folder)
        (tmp_path / "lib/python3.12/site-packages").mkdir()
        assert site_packages(str(tmp_path)) == str(tmp_path / "lib/python3.12/site-packages")


def test_what_pip_moved_out_of_the_way_is_not_installed(tmp_path):
    plant(tmp_path, "torch", "2.11.0")
    plant(tmp_path, "~orch", "2.10.0")
    assert list(installed(str(tmp_path))) == ["torch"]


def test_what_was_not_finished_is_noted_where_that_is_asked_for(tmp_path):
    plant(tmp_path, "torch", "2.11.0")
    (tmp_path / "foo-1.0.dist-info").mkdir()
    unfinished = []
    assert list(installed(str(tmp_path), unfinished)) == ["torch"]
    assert unfinished[0].startswith(f"`{tmp_path}/foo-1.0.dist-info/METADATA` holds no Name and Version")

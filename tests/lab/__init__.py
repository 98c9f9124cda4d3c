"""An arm64 node for a machine that has none: a Debian 13 userland in a container, emulated where it must be.

The control node's Python 3.11 or newer and the standard library are enough. Everything kept lies in one cache folder
outside the checkout (`host.cache_folder`); every container, network and image carries the label `podman.LABEL`.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "module_utils"))

"""What the tests download, and what they leave in a cache."""

import hashlib
import os

from ansible.module_utils.armstage.staging.transport import Limits

BODY = os.urandom(300_000)
SHA = hashlib.sha256(BODY).hexdigest()
OTHER = "0" * 64
QUICK = Limits(connect=2, read=0.5)


def held(cache):
    return sorted(entry.name for entry in cache.iterdir())

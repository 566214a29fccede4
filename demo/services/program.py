# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A process that ends with its launcher; also one of another project.

python -m demo.services.program COMMAND [ARGUMENT ...]
"""

import os
import runpy
import signal
import stat
import sys
import threading


def end_with_launcher() -> None:
    """Send SIGTERM to this process as soon as its launcher has ended.

    Standard input is a pipe that the launcher never writes to, so its end
    means that the launcher is gone, for whatever reason. A process that was
    started by hand has something else there, or nothing, and goes on.
    """
    if _has_pipe():
        threading.Thread(target=_wait_and_end, daemon=True).start()


def _has_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False


def _wait_and_end() -> None:
    # Without the lock of sys.stdin, which a forked process would wait for.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == '__main__':
    end_with_launcher()
    # As if a shell had started the command, which is a Python script.
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name='__main__')

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

"""Serves one project: ``python -m demo.services``."""

import argparse
import importlib
import os
import pathlib
import sys
import threading
import warnings

from demo import stack as stack_lib
from demo.services import program

#: Modules of this package with a function ``serve``, or several of them.
PROJECTS = (
    *('broker', 'cinder', 'glance', 'keystone', 'neutron', 'nova'),
    *('cyborg_agent', 'cyborg_api', 'cyborg_conductor'),
)


def main() -> None:
    """Serve one project until the process gets a signal.

    The process exits with status 1 if the project does not start.
    """
    parser = argparse.ArgumentParser(prog='demo.services')
    parser.add_argument('project', choices=PROJECTS)
    parser.add_argument('--state-dir', type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    program.end_with_launcher()
    # The projects read the command line, too, and reject other options.
    sys.argv = [arguments.project]
    warnings.simplefilter('ignore')
    try:
        stack = stack_lib.load(arguments.state_dir)
        module, *service = arguments.project.split('_')
        serving = importlib.import_module(f'demo.services.{module}')
        getattr(serving, '_'.join(['serve', *service]))(stack)
        stack.mark_of(arguments.project).touch()
        threading.Event().wait()
    except BaseException:
        # Threads of the project would keep this process alive, and the
        # launcher waiting for an API that never answers.
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


if __name__ == '__main__':
    main()

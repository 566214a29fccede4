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

"""Command ``nova-powervm-clean``."""

import contextlib
import functools
import queue
import signal
import sys
import threading
from collections.abc import Callable
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from nova_powervm.conf import cleaning as options
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.clean import cleaner
from nova_powervm.tool.clean import deletions
from nova_powervm.tool.clean import program as programs
from nova_powervm.tool.clean import state
from nova_powervm.tool.inventory import conductor
from nova_powervm.tool.inventory import config as configs
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client

NAME = 'nova-powervm-clean'
LOG = logging.getLogger(__name__)

#: Seconds from the notification of a deletion to the pass: Nova deletes the
#: allocations in between.
_DELAY = 10.0

_ONCE = cfg.BoolOpt(
    'once',
    default=False,
    help='Make one pass over the devices that wait, and exit, as for cron.',
)


class Passes:
    """Makes passes until it is stopped.

    :param devices: Cleans the devices.
    :param program: The operator's program.
    :param interval: Seconds between two passes.
    :param delay: Seconds from :meth:`ask` to the pass.
    """

    def __init__(
        self,
        devices: cleaner.Cleaner,
        program: programs.Program,
        interval: float,
        delay: float = _DELAY,
    ) -> None:
        self._devices = devices
        self._program = program
        self._interval = interval
        self._delay = delay
        self._stopping = threading.Event()
        self._wanted = threading.Event()

    def ask(self) -> None:
        """Ask for a pass soon."""
        self._wanted.set()

    def stop(self) -> None:
        """End soon, and stop the program if it runs."""
        self._stopping.set()
        self._wanted.set()
        self._program.stop()

    def run(self) -> int:
        """Make passes until this is stopped.

        :returns: The exit code.
        """
        while not self._stopping.is_set():
            self.once()
            if self._wanted.wait(self._interval):
                self._stopping.wait(self._delay)
            self._wanted.clear()
        return exit_codes.SUCCESS

    def once(self) -> int:
        """Make one pass.

        :returns: The exit code.
        """
        try:
            is_done = self._devices.clean_all()
        except errors.EXPECTED as error:
            reason = errors.describe(error)
        except Exception:
            LOG.exception(
                'The pass over the devices has ended early by a bug in the '
                'program.'
            )
            return exit_codes.TROUBLE
        else:
            return exit_codes.SUCCESS if is_done else exit_codes.REFUSED
        LOG.error('The pass over the devices has ended early: %s', reason)
        return exit_codes.TROUBLE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-clean``.

    :param argv: The arguments; those of the process by default.
    :returns: The exit code.
    """
    try:
        config = read_config(list(sys.argv[1:] if argv is None else argv))
        settings = options.read_settings(config.conf.powervm_clean)
        logging.setup(config.conf, NAME)
        with state.lock(settings.state_directory, config.nodename) as lock:
            return serve(config, settings, lock)
    except errors.AlreadyCleaning as error:
        print(f'{NAME}: {error}', file=sys.stderr)
        return exit_codes.RUNS_ALREADY
    except errors.EXPECTED as error:
        print(f'{NAME}: {errors.describe(error)}', file=sys.stderr)
        return exit_codes.TROUBLE


def serve(
    config: configs.Config, settings: options.Settings, lock: int
) -> int:
    """Clean devices, until a signal comes or once.

    :param lock: File descriptor that programs inherit.
    :returns: The exit code.
    :raises exception.PowerVMError: The configuration is wrong.
    """
    passes = make_passes(config, settings, lock)
    if config.conf.once:
        return _run(passes.once, passes.stop)
    if settings.listen_for_deletions:
        deletions.start(config.conf, config.nodename, passes.ask)
    return _run(passes.run, passes.stop)


def make_passes(
    config: configs.Config, settings: options.Settings, lock: int
) -> Passes:
    """Put together what makes passes; nothing is asked yet.

    :param lock: File descriptor that programs inherit.
    :raises exception.PowerVMError: The configuration is wrong.
    """
    program = programs.Program(settings.program, settings.time_limit, [lock])
    services = cleaner.Services(
        placement=placement_client.connect_placement(config.conf),
        read_host=functools.partial(
            host_reader.read_server, config.settings.server
        ),
        program=program,
        attempts=state.Attempts(settings.state_directory, config.nodename),
        name_projects=conductor.Conductor(config.conf).name_projects,
    )
    devices = cleaner.Cleaner(services, settings, config.nodename)
    return Passes(devices, program, settings.interval)


def _run(work: Callable[[], int], stop: Callable[[], None]) -> int:
    """Call a function in a thread, and stop it at a signal.

    A signal handler may interrupt this thread anywhere, so it only puts
    something into a queue. It runs in this thread, which the system need not
    wake up for it if there are others: so this one looks once a second.

    :returns: What the function returns.
    """
    arrived: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    before = {
        number: signal.signal(number, lambda *_: arrived.put(None))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    threading.Thread(
        target=lambda: arrived.put(work()), name='powervm-clean', daemon=True
    ).start()
    try:
        while (code := _await(arrived)) is None:
            stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _await(arrived: queue.SimpleQueue[int | None]) -> int | None:
    while True:
        with contextlib.suppress(queue.Empty):
            return arrived.get(timeout=1)


def read_config(argv: Sequence[str]) -> configs.Config:
    """Read the command line and the configuration files.

    :raises cfg.Error: A file can't be found or parsed.
    :raises exception.ConfigurationError: A file can't be read.
    """
    conf = configs.declare_options()
    options.register_opts(conf)
    conf.register_cli_opts([_ONCE])
    logging.register_options(conf)
    configs.parse_config(
        conf,
        argv,
        configs.default_files(),
        configs.default_dirs(),
        prog=NAME,
        version=configs.describe_version(NAME),
    )
    return configs.Config(conf, conf.config_file or ())

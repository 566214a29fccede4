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

"""Reads the options of nova.conf that the commands need.

The options are read into a separate configuration object, so that a command
can run without importing Nova.
"""

import argparse
import importlib.metadata
import os
import socket
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import netutils

from nova_powervm import conf as powervm_conf
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import slot_providers

LOG = logging.getLogger(__name__)

#: ``[DEFAULT]host`` as in Nova: name of the compute node.
_HOST = cfg.StrOpt('host', default=socket.gethostname())
#: As in Nova, which determines the default earlier.
_MY_IP = cfg.StrOpt('my_ip')
#: As in Nova: directory of the files that add to providers.
_PROVIDERS = cfg.StrOpt(
    'provider_config_location', default='/etc/nova/provider_config/'
)

#: As in Nova: VCPU that Placement offers for each processor.
_RATIOS = (
    cfg.FloatOpt('cpu_allocation_ratio'),
    cfg.FloatOpt('initial_cpu_allocation_ratio', default=4.0),
)


class Config:
    """Options from the configuration files.

    :param conf: Configuration of oslo.config; can get more options.
    :param files: Paths of the files that were read.
    """

    def __init__(self, conf: cfg.ConfigOpts, files: Sequence[str]) -> None:
        self.conf = conf
        self.files = tuple(files)

    @property
    def settings(self) -> options.Settings:
        """The ``[powervm]`` options.

        :raises nova_powervm.exception.ConfigurationError: A value is invalid,
            or options contradict each other.
        """
        return options.read_settings(self.conf.powervm)

    @property
    def inventory_file(self) -> str:
        """The path of the inventory file."""
        return str(self.conf.powervm.inventory_file)

    @property
    def additions(self) -> Mapping[str, slot_providers.Additions]:
        """Additions from Nova's provider configuration files.

        The keys are UUIDs or names of providers.

        :raises nova_powervm.exception.ConfigurationError: A file is invalid
            or can't be read.
        """
        # Importing Nova takes a second, and most commands do not need it.
        from nova import exception as nova_exception  # noqa: PLC0415

        from nova_powervm.virt.provider_tree import contents  # noqa: PLC0415

        location = self.conf.compute.provider_config_location
        try:
            return contents.read_additions(location)
        except nova_exception.NovaException as error:
            raise exception.ConfigurationError(
                reason=f'{location}: {error.format_message()}'
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(error, [location]) from error

    @property
    def cpu_allocation_ratio(self) -> float:
        """The VCPU that Placement offers for each processor of the host."""
        return float(
            self.conf.cpu_allocation_ratio
            or self.conf.initial_cpu_allocation_ratio
        )

    @property
    def address(self) -> str:
        """The IP address of nova-compute."""
        return str(self.conf.my_ip or netutils.get_my_ipv4())

    @property
    def nodename(self) -> str:
        """Name of the compute node and of its provider."""
        return str(self.conf.host)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options whose values :func:`read_config` takes."""
    parser.add_argument(
        '--config-file',
        action='append',
        dest='config_files',
        metavar='PATH',
        help='configuration file of nova-compute; can be repeated '
        '(default: the existing files that nova-compute reads, for '
        'example /etc/nova/nova.conf)',
    )
    parser.add_argument(
        '--config-dir',
        action='append',
        dest='config_dirs',
        metavar='DIR',
        help='directory with further configuration files, whose names '
        'end in .conf; they are read after the files of --config-file; '
        'can be repeated',
    )


def read_config(
    files: Sequence[str] | None = None, dirs: Sequence[str] | None = None
) -> Config:
    """Read configuration files.

    :param files: Paths of the files; by default the files that nova-compute
        reads, as far as they are readable.
    :raises oslo_config.cfg.Error: A file can't be found or parsed.
    :raises nova_powervm.exception.ConfigurationError: A file can't be read.
    """
    if files is None and dirs is None:
        files, dirs = default_files(), default_dirs()
    conf = declare_options()
    parse_config(conf, [], files or (), dirs or ())
    return Config(conf, files or ())


def parse_config(
    conf: cfg.ConfigOpts,
    args: Sequence[str],
    files: Sequence[str],
    dirs: Sequence[str] = (),
    **options: Any,
) -> None:
    """Parse a command line and configuration files.

    :param conf: Configuration with registered options; gets their values.
    :param args: Command line; its ``--config-file`` and ``--config-dir``
        replace ``files`` and ``dirs``.
    :param options: Further arguments of ``conf``.
    :raises oslo_config.cfg.Error: A file can't be found or parsed.
    :raises nova_powervm.exception.ConfigurationError: A file can't be read.
        The error names the file, which oslo.config's error does not.
    """
    try:
        conf(
            args=list(args),
            default_config_files=list(files),
            default_config_dirs=list(dirs),
            **{'project': 'nova', **options},
        )
    except (OSError, UnicodeDecodeError) as error:
        # What follows an option, or its equals sign, may be a path.
        words = [word.rpartition('=')[2] for word in args]
        paths = filter(os.path.exists, (*words, *files, *dirs))
        raise _unreadable(error, paths) from error


def _unreadable(
    error: OSError | UnicodeDecodeError, paths: Iterable[str]
) -> exception.ConfigurationError:
    """Create an error that names the unreadable file.

    :param error: The error.
    :param paths: What was read; an error about the encoding does not tell.
    """
    if isinstance(error, OSError):
        return exception.ConfigurationError(
            reason=f'{error.filename} cannot be read: {error.strerror}'
        )
    return exception.ConfigurationError(
        reason=f'{" or ".join(paths)} cannot be read: byte '
        f'0x{error.object[error.start]:02X} is not UTF-8. Save the file '
        'with the encoding UTF-8.'
    )


def declare_options() -> cfg.ConfigOpts:
    """Create a configuration with registered options that has read no file."""
    conf = cfg.ConfigOpts()
    conf.register_opts([_HOST, _MY_IP, *_RATIOS])
    conf.register_opts([_PROVIDERS], group='compute')
    powervm_conf.register_opts(conf)
    return conf


def default_files() -> list[str]:
    """Return the readable configuration files of nova-compute."""
    return _readable(
        cfg.find_config_files(project='nova', prog='nova-compute')
    )


def default_dirs() -> list[str]:
    """Return the readable configuration directories of nova-compute."""
    return _readable(cfg.find_config_dirs(project='nova', prog='nova-compute'))


def unreadable_defaults() -> list[str]:
    """Return the files and directories of nova-compute that are passed over.

    A directory without a right to search it hides what is in it.
    """
    paths = [
        path
        for find in (cfg.find_config_files, cfg.find_config_dirs)
        for path in find(project='nova', prog='nova-compute')
    ]
    return sorted(path for path in paths if not _is_readable(path))


def _is_readable(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=True)


def _readable(paths: Sequence[str]) -> list[str]:
    """Return the paths that this user can read; warn about the others."""
    readable = [path for path in paths if _is_readable(path)]
    for path in sorted(set(paths) - set(readable)):
        LOG.warning(
            '%(path)s cannot be read by this user, so its options have '
            'their default values. Run the command as a user who can read '
            'the file, or use --config-file.',
            {'path': path},
        )
    return readable


def describe_version(program: str) -> str:
    """Return the output of ``--version``: the name, and what pip shows."""
    return f'{program} {importlib.metadata.version("nova-powervm")}'

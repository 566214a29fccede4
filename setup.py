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

"""Build with pbr; the metadata is in setup.cfg."""

import setuptools

#: Packages that the wheel of the driver leaves out: packages/emulator builds
#: the first as a distribution of its own, the second runs in a checkout.
LEFT_OUT = ('nova_powervm.emulator', 'nova_powervm.demo')


class Distribution(setuptools.Distribution):
    """What a compute node needs.

    An editable install has everything all the same: it points to the
    checkout. pbr can't exclude packages, and replaces ``cmdclass``.
    """

    def finalize_options(self):
        """Drop the packages, and name data files in place of git."""
        super().finalize_options()
        self.packages = [
            package
            for package in self.packages or ()
            if not f'{package}.'.startswith(
                tuple(f'{left_out}.' for left_out in LEFT_OUT)
            )
        ]
        # What is left out would be taken for data of its parent.
        self.include_package_data = False
        self.package_data = {'': ['*.json', '*.yaml']}


setuptools.setup(
    setup_requires=['pbr>=6.1.1'],
    pbr=True,
    distclass=Distribution,
    # nova is a regular package, so the module that the compute_driver
    # option names has to be put inside it by an explicit mapping.
    package_dir={'nova.virt.powervm_ext': 'nova.virt.powervm_ext'},
)

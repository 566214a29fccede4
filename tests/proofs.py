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

"""A test says what it proves.

The page "Coverage of the specifications" lists the tests by what they prove.
It is made from the sources, so names are written as literals.
"""


def proves(*names):
    """Say which clauses and which rows of the support matrix a test proves.

    :param names: Such as ``D23``, a clause in
        ``doc/source/contributor/spec-coverage.rst``, and ``device.resize``, a
        section of ``doc/source/support-matrix.ini``.
    :returns: A decorator for tests, stories, and classes of tests. It sets
        an attribute and nothing else, so that ids of tests stay.
    """

    def mark(test):
        test.proves = names
        return test

    return mark

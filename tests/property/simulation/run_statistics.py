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

"""Counts of simulated rules, faults and checks."""

import collections


class RunStatistics:
    """Counts rules, faults and checks over all runs of this process."""

    def __init__(self):
        self.rules = collections.Counter()
        self.faults = collections.Counter()
        self.checks = collections.Counter()
        self.parts = collections.Counter()
        self.runs = 0
        self.seconds = 0.0

    @property
    def steps(self):
        """The number of rules that did something."""
        return self.rules.total()

    def rule(self, name):
        self.rules[name] += 1

    def note(self, name):
        """Count a part of a rule."""
        self.parts[name] += 1

    def fault(self, trouble):
        self.faults[f'{trouble.kind} {trouble.fault}'.strip()] += 1

    def add(self, checked, seconds):
        """Add the checks of one run."""
        self.checks.update(checked)
        self.runs += 1
        self.seconds += seconds

    def lines(self):
        """Yield the counts, one per line."""
        yield f'{self.steps} steps in {self.runs} runs, {self.seconds:.1f} s'
        for title, counts in (
            ('rules', self.rules),
            ('parts of rules', self.parts),
            ('faults injected', self.faults),
            ('invariants checked', self.checks),
        ):
            yield f'{counts.total()} {title}:'
            for name, count in sorted(counts.items()):
                yield f'{count:9}  {name}'


TOTALS = RunStatistics()

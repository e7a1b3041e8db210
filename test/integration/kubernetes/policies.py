"""What the API server does with a ValidatingAdmissionPolicy, as far as the policies here need it."""
import os
import sys
from pathlib import Path
from typing import List

# Behind everything else: it brings versions of its own of what others need too.
KUBERNETES = os.environ.get('ORCD_KUBERNETES', '')
if KUBERNETES:
    sys.path.append(KUBERNETES)


def documents(path: Path) -> List[dict]:
    import yaml
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


class Policy:
    """One ValidatingAdmissionPolicy, its expressions compiled."""

    def __init__(self, document: dict):
        import celpy
        self._celpy, self.name, self.spec = celpy, document['metadata']['name'], document['spec']
        self._environment = celpy.Environment()

    def _value(self, expression: str, activation: dict):
        program = self._environment.program(self._environment.compile(expression))
        return program.evaluate(activation)

    def rules_for(self, one: dict) -> bool:
        group, _, version = one['apiVersion'].rpartition('/')
        plural = one['kind'].lower() + 's'
        return any(group in rule['apiGroups'] and version in rule['apiVersions']
                   and plural in rule['resources'] for rule in self.spec['matchConstraints']['resourceRules'])

    def refusals(self, one: dict) -> List[str]:
        """The messages of all rules that the object breaks; none where the policy does not concern it."""
        if not self.rules_for(one):
            return []
        activation = {'object': self._celpy.json_to_cel(one)}
        if not all(self._value(c['expression'], activation) for c in self.spec.get('matchConditions', [])):
            return []
        variables = self._celpy.celtypes.MapType()
        activation['variables'] = variables
        for variable in self.spec.get('variables', []):
            value = self._value(variable['expression'], activation)
            variables[self._celpy.celtypes.StringType(variable['name'])] = value
        return [rule['message'] for rule in self.spec['validations']
                if not self._value(rule['expression'], activation)]

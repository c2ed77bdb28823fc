"""What opql_jax calls and implements of t5x: names of parameters, which this script records where
t5x is installed, and a stand-in made of them, whose functions return what they are given.
"""

import copy
import functools
import importlib
import inspect
import json
import pathlib
import sys
import types

import gin
from opql_jax.core.errors import InputError

RECORD = pathlib.Path(__file__).with_suffix('.json')
# The abstract model, and what gin/t5x sets parameters of.
_MODEL = 't5x.models.BaseModel'
_SET_BY_GIN = (
    'train.train infer.infer optimizers.OptaxWrapper partitioning.PjitPartitioner trainer.Trainer '
    'partitioning.default_mesh partitioning.standard_logical_axis_rules utils.DatasetConfig '
    'utils.RestoreCheckpointConfig utils.SaveCheckpointConfig'
).split()


def installed() -> dict[str, str]:
    """The parameters of each function, by its full name, in the t5x that is installed."""
    parameters = lambda function: ' '.join(inspect.signature(function).parameters)
    found = {}
    for name in (*(f't5x.{name}' for name in _SET_BY_GIN), _MODEL):
        module, _, attribute = name.rpartition('.')
        value = getattr(importlib.import_module(module), attribute)
        if name != _MODEL:
            found[name] = parameters(value)
            continue
        for method, function in sorted(vars(value).items()):
            if inspect.isfunction(function) and method != '__init__':
                found[f'{name}.{method}'] = parameters(function)
    return found


def recorded() -> dict[str, str]:
    return json.loads(RECORD.read_text())


def methods_of_models() -> dict[str, str]:
    named = {name.rpartition('.'): parameters for name, parameters in recorded().items()}
    return {name: parameters for (of, _, name), parameters in named.items() if of == _MODEL}


@functools.cache
def _stand_in() -> None:
    sys.modules['t5x'] = types.ModuleType('t5x')
    for full_name, parameters in recorded().items():
        module_name, _, name = full_name.rpartition('.')
        module = sys.modules.setdefault(module_name, types.ModuleType(module_name))

        def function(**given):
            return given

        function.__name__, function.__qualname__, function.__module__ = name, name, module_name
        optional = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        given = [optional(name, default=None) for name in parameters.split()]
        function.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
        setattr(module, name, function)


def configured(root: str, binary: str, files: list[str], bindings: list[str], name: str):
    """What gin gives a function of t5x, such as 'trainer.Trainer', or the value of a macro; the
    stand-in stays: for a process of its own. InputError: whatever was wrong.
    """
    _stand_in()
    sys.modules['__main__'] = sys.modules[f't5x.{binary}']
    gin.clear_config()
    gin.add_config_file_search_path(root)
    try:
        gin.parse_config_files_and_bindings(files, bindings, finalize_config=False)
        if '.' not in name:
            # Which is how gin evaluates a macro.
            return copy.deepcopy(gin.query_parameter(f'{name}/gin.macro.value'))
        return gin.get_configurable(f't5x.{name}')()
    except Exception as error:  # gin's own cannot be pickled
        raise InputError(str(error)) from None


if __name__ == '__main__':
    RECORD.write_text(json.dumps(installed(), indent=1) + '\n')

"""How the search of the whole memory scales with rows and with devices, and what devices exchange.

python benchmarks/memory_scaling.py --rows 100000,1000000,3000000 --devices 1,2,4,8 --json
python benchmarks/memory_scaling.py --rows 10000000 --dim 256 --devices "" --json    # 10 GB

Times against rows are of one device. Devices are virtual and share the same cores, so the work is the same for any number of them
and a ratio `over_first` of 1 is perfect. `received_bytes` are those that a device receives in one `retrieve`, read from the
compiled program; `formula_bytes` are, for B queries that D devices share equally and 4 bytes per number,

    (D - 1) / D * (B (2 d_e + d_r) + 10 B k)

that is the queries gathered, e_Y reduced, and 10 numbers per entry kept.
"""

import jax
import numpy as np
from command_line import integers, make_parser, show
from hlo import received_bytes
from timing import medians

from opql_jax.memory import search
from opql_jax.memory.follow import Queries
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import shard_memory
from opql_jax.parallel.collectives import QueryLayout
from opql_jax.parallel.entity_table import Layout, place
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC = 32


def compile_search(options, rows: int, num_devices: int, function):
    """`function`, `search.top_k` or `search.retrieve`, compiled for a random memory, and its arguments."""
    rng, half, mesh = np.random.default_rng(0), options.dim // 2, make_mesh(num_devices)
    num_entities = rows // ROWS_PER_TOPIC
    topic = np.sort(rng.integers(0, num_entities, rows)).astype(np.int32)
    memory = shard_memory(topic, topic, rng.standard_normal((rows, half), np.float32), mesh)
    table = place(rng.standard_normal((num_entities, half), np.float32), Layout(mesh, num_entities))
    memory = jax.jit(with_keys)(memory, table)
    query = rng.standard_normal((2, options.queries, half), np.float32)
    queries = jax.device_put(Queries(*query), jax.NamedSharding(mesh, QueryLayout.of(options.queries, mesh).spec))
    arguments = memory, table, queries
    return jax.jit(lambda *arguments: function(*arguments, options.k)).lower(*arguments).compile(), arguments


def main():
    """Prints a line for each number of rows, and one for each number of devices."""
    parser = make_parser(__doc__)
    parser.add_argument('--rows', type=integers, default='100000,300000,1000000,3000000')
    parser.add_argument('--devices', type=integers, default='1,2,4,8')
    parser.add_argument('--device_rows', type=int, default=400_000, help='rows of the memory that is split over devices')
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', type=int, default=64)
    parser.add_argument('--k', type=int, default=32)
    options = parser.parse_args()
    jax.config.update('jax_num_cpu_devices', max(options.devices, default=1))

    for rows in options.rows:
        run, arguments = compile_search(options, rows, 1, search.top_k)
        seconds = medians({'exact': lambda run=run, arguments=arguments: run(*arguments)})['exact']
        line = {'rows': rows, 'queries': options.queries, 'seconds': round(seconds, 4)}
        show(line | {'rows_per_second': round(rows / seconds)}, options.json)

    searches = {n: compile_search(options, options.device_rows, n, search.retrieve) for n in options.devices}
    times = medians({n: lambda run=run, arguments=arguments: run(*arguments) for n, (run, arguments) in searches.items()})
    for n, (run, _) in searches.items():
        received = received_bytes(run, n)
        line = {
            'devices': n,
            'rows': options.device_rows,
            'seconds': round(times[n], 4),
            'over_first': round(times[n] / times[options.devices[0]], 2),
            'received_bytes': sum(received.values()),
            'by_kind': received,
        }
        if options.queries % n == 0:
            numbers = options.queries * 3 * (options.dim // 2) + 10 * options.queries * options.k
            line['formula_bytes'] = 4 * numbers * (n - 1) // n
        show(line, options.json)


if __name__ == '__main__':
    main()

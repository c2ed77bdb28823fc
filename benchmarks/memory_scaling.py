"""How the search of the whole memory grows: with rows, with devices, and what devices exchange.

python benchmarks/memory_scaling.py --rows 100000,1000000,3000000 --devices 1,2,4,8 --json
python benchmarks/memory_scaling.py --rows 10000000 --dim 256 --devices "" --json    # 10 GB

Times against rows are on one device; against devices, which here are virtual and share the same cores, the work is the
same in all, so that a ratio of 1 is perfect. Bytes are those that a device receives in one `retrieve`, read from the
compiled program, beside the formula for B queries that D devices share equally, 4 bytes a number:

    (D - 1) / D * (n d_e + B (2 d_e + d_r) + 10 B k)

that is E and the queries gathered, e_Y reduced, and 10 numbers per entry kept.
"""

import argparse
import json
import os

import numpy as np

ROWS_PER_TOPIC = 32


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', default='100000,300000,1000000,3000000')
    parser.add_argument('--devices', default='1,2,4,8')
    parser.add_argument('--device_rows', type=int, default=400_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', type=int, default=64)
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    devices = [int(number) for number in options.devices.split(',') if number]
    # Before JAX starts.
    os.environ['XLA_FLAGS'] = f'--xla_force_host_platform_device_count={max(devices, default=1)}'
    import jax
    from hlo import received_bytes
    from timing import medians

    from opql_jax.memory import search
    from opql_jax.memory.follow import Queries
    from opql_jax.memory.sharding import shard_memory
    from opql_jax.parallel import mesh as mesh_lib

    half = options.dim // 2
    show = lambda line: print(json.dumps(line) if options.json else line, flush=True)

    def case(rows, mesh, function):
        """The compiled search and its arguments."""
        rng = np.random.default_rng(0)
        num_entities = rows // ROWS_PER_TOPIC
        topic = np.sort(rng.integers(0, num_entities, rows)).astype(np.int32)
        memory = shard_memory(topic, topic, rng.standard_normal((rows, half), np.float32), mesh)
        table = rng.standard_normal((num_entities + -num_entities % mesh.size, half), np.float32)
        split = jax.NamedSharding(mesh, jax.P(mesh.axis_names))
        query = rng.standard_normal((2, options.queries, half), np.float32)
        spread = split if options.queries % mesh.size == 0 else jax.NamedSharding(mesh, jax.P())
        arguments = memory, jax.device_put(table, split), jax.device_put(Queries(*query), spread)
        return jax.jit(lambda *arguments: function(*arguments, options.k)).lower(*arguments).compile(), arguments

    for rows in (int(number) for number in options.rows.split(',') if number):
        run, arguments = case(rows, mesh_lib.make_mesh(1), search.top_k)
        seconds = medians({'exact': lambda: run(*arguments)})['exact']
        show({'rows': rows, 'queries': options.queries, 'seconds': round(seconds, 4), 'rows_per_second': round(rows / seconds)})
        del run, arguments

    if not devices:
        return
    cases = {number: case(options.device_rows, mesh_lib.make_mesh(number), search.retrieve) for number in devices}
    times = medians({number: lambda pair=pair: pair[0](*pair[1]) for number, pair in cases.items()})
    for number, (run, arguments) in cases.items():
        b, table = options.queries, arguments[1]
        received = received_bytes(run, number)
        line = {
            'devices': number,
            'rows': options.device_rows,
            'seconds': round(times[number], 4),
            'over_first': round(times[number] / times[devices[0]], 2),
            'received_bytes': sum(received.values()),
            'by_kind': received,
        }
        if b % number == 0:
            numbers = table.size + b * 3 * half + 10 * b * options.k
            line['formula_bytes'] = 4 * numbers * (number - 1) // number
        show(line)


if __name__ == '__main__':
    main()

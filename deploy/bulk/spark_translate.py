#!/usr/bin/env python3
"""Translates a file of lines with Spark.

    spark-submit spark_translate.py MODEL INPUT OUTPUT [--partitions N] [--options JSON]

MODEL is a folder that every worker can read, INPUT whatever Spark can read (gzip is one partition), OUTPUT a folder
that does not exist yet: its part files, one after the other, are what `tril translate` prints. --options are those of
tril.Translator.translate_batch, as in '{"beam_size": 4}' or '{"sampling": true, "seed": 7}'.

Each task translates with one thread, since Spark runs as many tasks as there are cores. A task that is killed is run
again by Spark and gives the same lines: a translation depends on the model, the line, its number in the file and the
options alone. Text must be UTF-8.
"""
import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql import SparkSession


def translate(
    batches: Iterator[pyarrow.RecordBatch], model: str, options: dict[str, Any]
) -> Iterator[pyarrow.RecordBatch]:
    """For mapInArrow: rows of a number, from 0, and a line, which become a number and a translation. The numbers of a
    batch must follow each other. The model is loaded once per task, and never before Spark forks its workers."""
    import tril

    translator = tril.Translator(model, device='cpu', intra_threads=1)
    for batch in batches:
        numbers = batch.column('number')
        if len(numbers) == 0:
            continue
        first = numbers[0].as_py()
        if numbers[-1].as_py() != first + len(numbers) - 1:
            raise ValueError(f'the lines of the batch from line {first + 1} on do not follow each other')
        results = translator.translate_batch(
            batch.column('line').to_pylist(), first_number=first, bad_lines='skip', **options)
        for result in results:
            if result.skipped:
                print(f'line {result.number + 1} skipped: {result.skipped}', file=sys.stderr)
        texts = pyarrow.array([result.text for result in results], pyarrow.string())
        yield pyarrow.RecordBatch.from_arrays([numbers, texts], ['number', 'line'])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ('model', 'input', 'output'):
        parser.add_argument(name)
    parser.add_argument('--partitions', type=int, default=0, help='at least so many tasks')
    parser.add_argument('--options', type=json.loads, default={}, help='of translate_batch, as JSON')
    flags = parser.parse_args()

    # A batch of Arrow is one call of the translator.
    spark = SparkSession.builder.config('spark.sql.execution.arrow.maxRecordsPerBatch', 1000).getOrCreate()
    context = spark.sparkContext
    # Lines as tril reads them: they end with LF, or CR LF. (Spark's own text source also splits at CR.)
    reading = {'textinputformat.record.delimiter': '\n'}
    if flags.partitions > 0:
        reading['mapreduce.input.fileinputformat.split.maxsize'] = str(
            max(1, bytes_of(context, flags.input) // flags.partitions))
    texts = context.newAPIHadoopFile(
        flags.input, 'org.apache.hadoop.mapreduce.lib.input.TextInputFormat', 'org.apache.hadoop.io.LongWritable',
        'org.apache.hadoop.io.Text', conf=reading)
    lines = texts.values().zipWithIndex().map(
        lambda pair: (pair[1], (pair[0].removeprefix('\ufeff') if pair[1] == 0 else pair[0]).removesuffix('\r')))
    numbered = spark.createDataFrame(lines, 'number long, line string')
    model, options = flags.model, flags.options
    translated = numbered.mapInArrow(lambda batches: translate(batches, model, options), numbered.schema)
    translated.select('line').write.text(flags.output)
    spark.stop()


def bytes_of(context: Any, path: str) -> int:
    where = context._jvm.org.apache.hadoop.fs.Path(path)
    return sum(file.getLen() for file in where.getFileSystem(context._jsc.hadoopConfiguration()).globStatus(where))


if __name__ == '__main__':
    main()

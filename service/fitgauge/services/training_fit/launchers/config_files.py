"""The configuration files of a command: those that it writes, and its flags as the file that the
tool reads in their place."""

import re
import shlex

from fitgauge.services.training_fit.launchers import registry
from fitgauge.services.training_fit.launchers.words_as_files import ConfigFiles

_WRITTEN = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n?", re.MULTILINE | re.DOTALL)
_ECHOED = re.compile(r"^echo ('.*?') > (\S+) && ", re.DOTALL)


def config_files(command: str) -> ConfigFiles | None:
    """Return the files of a command; None where its tool reads none of ours: torchtune, for a
    model without a builder of its own, reads its own recipe's."""
    files = dict[str, str](_WRITTEN.findall(command))
    rest = _WRITTEN.sub("", command)
    if (echoed := _ECHOED.match(rest)) is not None:
        files[echoed[2]] = shlex.split(echoed[1])[0] + "\n"
        rest = rest[echoed.end() :]
    *before, last = rest.split("\n")
    words = shlex.split(last)
    for files_of in registry.readers():
        if (read := files_of(before, words)) is not None:
            return ConfigFiles({**files, **read.files}, read.command)
    return ConfigFiles(files, rest) if files else None

"""Import a document of tools into Semantic Kernel; print the parameters of every function.

Arguments: the document's path."""

import json
import sys

from semantic_kernel import Kernel

plugin = Kernel().add_plugin_from_openapi("fitgauge", openapi_document_path=sys.argv[1])
print(
    json.dumps(
        {
            name: [parameter.name for parameter in function.metadata.parameters]
            for name, function in plugin.functions.items()
        }
    )
)

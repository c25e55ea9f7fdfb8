// Convert a document of tools with LibreChat's data provider; print the parameters of every
// function. Arguments: the document's path.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.cwd() + "/");
const { openapiToFunction, validateAndParseOpenAPISpec } = require("librechat-data-provider");

const parsed = validateAndParseOpenAPISpec(readFileSync(process.argv[2], "utf8"));
if (!parsed.spec) {
  console.error(parsed.message);
  process.exit(1);
}
const { functionSignatures } = openapiToFunction(parsed.spec);
console.log(
  JSON.stringify(
    Object.fromEntries(
      functionSignatures.map(({ name, parameters }) => [name, Object.keys(parameters.properties)]),
    ),
  ),
);

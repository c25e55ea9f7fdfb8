// Validate a document of tools as Microsoft 365 Copilot does; print the parameters of every
// operation that it takes. Arguments: the document's path.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.cwd() + "/");
const { ProjectType, SpecParser, ValidationStatus } = require("@microsoft/m365-spec-parser");

const path = process.argv[2];
const parser = new SpecParser(path, { projectType: ProjectType.Copilot });
const validation = await parser.validate();
if (validation.status !== ValidationStatus.Valid) {
  console.error(JSON.stringify([validation.errors, validation.warnings]));
  process.exit(1);
}
const listed = await parser.list();
const taken = listed.APIs.filter((api) => api.isValid).map((api) => api.operationId);
const document = JSON.parse(readFileSync(path, "utf8"));
const operations = Object.values(document.paths).map((methods) => methods.post);
console.log(
  JSON.stringify(
    Object.fromEntries(
      operations
        .filter((operation) => taken.includes(operation.operationId))
        .map((operation) => [
          operation.operationId,
          Object.keys(operation.requestBody.content["application/json"].schema.properties),
        ]),
    ),
  ),
);

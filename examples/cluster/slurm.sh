#!/bin/bash
# Certify on a SLURM cluster, without Ray: eight tasks make a part each, and one more puts them together.
#
#   sbatch --export=ALL,MODEL=model.onnx,DATA=images.npz examples/cluster/slurm.sh
#
# The same command again continues what a time limit or a lost node cut off: finished parts take no time. For another
# number of parts, say it twice: sbatch --array=1-16 --export=ALL,PARTS=16,...
#SBATCH --job-name=certify
#SBATCH --array=1-8
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail

: "${MODEL:?the model to certify}" "${DATA:?the images}"
: "${OUT:=certify}"                       # a folder that all nodes see
: "${SETTINGS:=--n 100000 --seed 1}"      # the same for all parts, the seed among them
: "${PARTS:=8}"                           # tasks of the whole array; SLURM does not know it of those submitted anew

mkdir -p "$OUT"
part="$OUT/part$SLURM_ARRAY_TASK_ID.tsv"
# shellcheck disable=SC2086  # SETTINGS are several words
intrs certify "$MODEL" "$DATA" $SETTINGS --shard "auto/$PARTS" --threads "${SLURM_CPUS_PER_TASK:-0}" -o "$part"

# Whichever task is the last one merges. `merge` fails while parts are missing, and says which.
if [ "$(find "$OUT" -name 'part*.tsv' | wc -l)" -eq "$PARTS" ]; then
  intrs merge "$OUT"/part*.tsv -o "$OUT/all.tsv" --overwrite || echo "other tasks are still at work"
fi

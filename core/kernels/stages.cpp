#include "stages.h"

#include "../error.h"

namespace intrs {

// --- steps --------------------------------------------------------------------------------------------------------

int32_t first_needed(const Program& program, size_t layer, int32_t done, int32_t next_done) {
  const int64_t first = Rows(program.network.layers[layer + 1]).first(next_done);
  return int32_t(std::clamp<int64_t>(first, -program.tensors[layer + 1].border.top, done));
}

RowOfEach needed(const Program& program, const Stage& stage, int32_t end) {
  RowOfEach ends = {};
  for (size_t layer = stage.last + 1; layer-- > stage.first;) {
    const int32_t height = program.network.shapes[layer + 1].height;
    const int32_t at_once = program.packed[layer] ? program.packed[layer]->rows : 1;
    end = std::min(int32_t(round_up(std::max(end, 0), at_once)), height);
    ends[layer - stage.first] = end;
    if (end > 0) end = int32_t(std::min<int64_t>(Rows(program.network.layers[layer]).end(end), INT32_MAX));
  }
  return ends;
}

namespace {

void prove(const Program& program, const Stage& stage) {
  constexpr const char* kBroken = "the plan of this network drops rows that are still needed. Please report this";
  RowOfEach done = {}, origin = {};
  for (size_t i = 0; i < stage.last - stage.first; ++i) origin[i] = -program.tensors[stage.first + i + 1].border.top;
  for_steps(program, stage, [&](const Step& step) {
    const size_t i = step.layer - stage.first;
    if (step.layer > stage.first) {
      const Rows rows(program.network.layers[step.layer]);
      const In& input = program.tensors[step.layer];
      require(rows.first(step.begin) >= origin[i - 1], kBroken);
      require(rows.end(step.end) <= with_bottom(input, done[i - 1]), kBroken);
    }
    const int32_t end = with_bottom(program.tensors[step.layer + 1], step.end);
    require(step.old_origin <= step.origin && step.origin <= step.begin, kBroken);
    require(end - step.origin <= program.held[step.layer + 1], kBroken);
    done[i] = step.end, origin[i] = step.origin;
  });
}

}  // namespace

void prove_stages(const Program& program) {
  for (const Stage& stage : program.stages) {
    if (stage.last > stage.first) prove(program, stage);
  }
}

// --- which layers run together ------------------------------------------------------------------------------------

// When the last layer goes on by `step` rows, its input goes on by step * stride and, the first time, by what the taps
// reach further; each is rounded up to what a layer does at once.
std::vector<int32_t> rows_held(const Program& program, const Stage& stage) {
  std::vector<int32_t> held(stage.last - stage.first);
  int64_t step = stage.rows;
  for (size_t layer = stage.last + 1; layer-- > stage.first;) {
    const In& t = program.tensors[layer + 1];
    const int64_t more = (program.packed[layer] ? program.packed[layer]->rows : 1) - 1;
    if (layer < stage.last) {
      const Rows next(program.network.layers[layer + 1]);
      const int64_t needed = (step - 1) * next.stride + next.reach + std::max(0, t.border.top - next.top);
      step = step * next.stride + std::max(0, next.reach - next.top - next.stride);
      held[layer - stage.first] =
          int32_t(std::min<int64_t>(std::max(needed, step) + more + t.border.bottom, all_rows(t)));
    }
    step = std::min<int64_t>(step + more, t.shape.height);
  }
  return held;
}

namespace {

// Bytes that a stage keeps using: the rows between its layers, and weights.
int64_t kept(const Program& program, const Stage& stage) {
  const std::vector<int32_t> held = rows_held(program, stage);
  int64_t bytes = 0;
  for (size_t layer = stage.first; layer <= stage.last; ++layer) {
    if (program.packed[layer]) bytes += program.packed[layer]->bytes;
    if (layer < stage.last) bytes += held[layer - stage.first] * program.tensors[layer + 1].row;
  }
  return bytes;
}

// May this layer run by rows? A Conv without packed weights looks at the shape of its input, and so do pools.
bool by_rows(const Program& program, size_t layer) {
  const Operation& operation = program.network.layers[layer].operation;
  if (const Conv* conv = conv_of(operation)) return program.packed[layer] && !conv->wide;
  if (const Gather* gather = std::get_if<Gather>(&operation)) return gather->rows.empty();
  return is_any<Add, Requantise, RequantiseDouble, CodeTable, Mul, ScaledAdd>(operation);
}

// Tensors that only the next layer reads, where both may run by rows.
std::vector<bool> passed_on(const Program& program) {
  const Network& network = program.network;
  std::vector<int32_t> uses(network.shapes.size()), by_next(network.shapes.size());
  for (size_t i = 0; i < network.layers.size(); ++i) {
    for (int32_t input : network.layers[i].inputs) {
      ++uses[size_t(input)];
      if (size_t(input) == i) ++by_next[i];
    }
  }
  std::vector<bool> result(network.shapes.size());
  for (size_t i = 0; i + 1 < network.layers.size(); ++i) {
    result[i + 1] = uses[i + 1] == 1 && by_next[i + 1] == 1 && by_rows(program, i) && by_rows(program, i + 1) &&
                    !network.broadcast(i + 1, int32_t(i + 1));
  }
  return result;
}

int32_t rows_at_once(const Program& program, Stage stage) {
  int32_t best = 0;
  const int32_t most = std::min(program.network.shapes[stage.last + 1].height, program.near.rows);
  for (stage.rows = 1; stage.rows <= most && kept(program, stage) <= program.near.kept; stage.rows *= 2) {
    best = stage.rows;
  }
  return best;
}

}  // namespace

// The division into stages that leaves the fewest bytes in tensors between stages, small ones not counted.
std::vector<Stage> best_stages(const Program& program) {
  const size_t layers = program.network.layers.size();
  const std::vector<bool> passed = passed_on(program);
  std::vector<int64_t> cost(layers + 1, INT64_MAX);  // of the layers before this one
  std::vector<Stage> ending(layers + 1);
  cost[0] = 0;
  for (size_t first = 0; first < layers; ++first) {
    for (size_t last = first; last < std::min(layers, first + kMostTogether); ++last) {
      Stage stage = {first, last, program.network.shapes[last + 1].height};
      if (last > first) {
        const In& between = program.tensors[last];
        if (!passed[last] || between.row * all_rows(between) <= program.near.small) break;
        stage.rows = rows_at_once(program, stage);
        if (stage.rows == 0) break;
      }
      const In& out = program.tensors[last + 1];
      const int64_t bytes = out.row * all_rows(out);
      const int64_t total = cost[first] + (bytes > program.near.small ? bytes : 0);
      if (total < cost[last + 1]) cost[last + 1] = total, ending[last + 1] = stage;
    }
  }
  std::vector<Stage> stages;
  for (size_t end = layers; end > 0; end = stages.back().first) stages.push_back(ending[end]);
  std::reverse(stages.begin(), stages.end());
  return stages;
}

std::vector<Stage> single_layers(const Program& program) {
  std::vector<Stage> stages;
  for (size_t i = 0; i < program.network.layers.size(); ++i) {
    stages.push_back({i, i, program.network.shapes[i + 1].height});
  }
  return stages;
}

}  // namespace intrs

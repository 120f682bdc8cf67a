// Which layers run together a few rows at a time (Stage), and the steps in which they do.
#pragma once

#include <algorithm>
#include <array>

#include "program.h"

namespace intrs {

constexpr size_t kMostTogether = 16;  // layers of a stage

// Which rows of its input a layer needs for some rows of its output. Only for layers that may run by rows.
struct Rows {
  int32_t stride = 1, reach = 1, top = 0;

  explicit Rows(const Layer& layer) {
    if (const Conv* conv = conv_of(layer.operation)) {
      const Window& w = conv->window;
      stride = w.stride_y, reach = (w.height - 1) * w.dilation_y + 1, top = w.top;
    }
  }
  int64_t first(int64_t row) const { return row * stride - top; }
  int64_t end(int64_t row) const { return (row - 1) * stride - top + reach; }  // for rows up to, without, `row`
};

std::vector<Stage> single_layers(const Program& program);
std::vector<Stage> best_stages(const Program& program);

// At most so many rows of the output of each layer of a stage, but the last, lie in memory at once.
std::vector<int32_t> rows_held(const Program& program, const Stage& stage);

// Throws Error unless, in every step of every stage, all rows that are read lie in memory and all that are written fit.
void prove_stages(const Program& program);

// --- steps ----------------------------------------------------------------------------------------------------------

// Some rows of the output of one layer of a stage. Before they are made, rows that the next layer no longer needs make
// room for them: those from `origin` on move to the front of the tensor's memory.
struct Step {
  size_t layer;
  int32_t begin, end;          // rows that are made
  int32_t old_origin, origin;  // the row that lies first in memory, before and after
};

using RowOfEach = std::array<int32_t, kMostTogether>;  // of the output of each layer of a stage

// How far each layer of a stage must be for the last one to be done up to row `end`.
RowOfEach needed(const Program& program, const Stage& stage, int32_t end);

// The first row of the output of `layer` that the next layer still needs when these two are done up to here.
int32_t first_needed(const Program& program, size_t layer, int32_t done, int32_t next_done);

// The end of rows up to `end` with the border below them, if they are the last.
inline int32_t with_bottom(const In& t, int32_t end) {
  return end == t.shape.height ? end + t.border.bottom : end;
}

// Calls visit(step) for every layer as far as the next few rows of the last one need it, again and again.
template <class Visit>
void for_steps(const Program& program, const Stage& stage, Visit visit) {
  RowOfEach done = {}, origin = {};
  for (size_t layer = stage.first; layer <= stage.last; ++layer) {
    origin[layer - stage.first] = -program.tensors[layer + 1].border.top;
  }
  const int32_t height = program.network.shapes[stage.last + 1].height;
  for (int32_t end = 0; end < height;) {
    end = std::min(end + stage.rows, height);
    const RowOfEach goals = needed(program, stage, end);
    for (size_t layer = stage.first, i = 0; layer <= stage.last; ++layer, ++i) {
      if (goals[i] <= done[i]) continue;
      Step step = {layer, done[i], goals[i], origin[i], origin[i]};
      const int32_t rows = with_bottom(program.tensors[layer + 1], step.end) - origin[i];
      if (layer < stage.last && rows > program.held[layer + 1]) {
        step.origin = first_needed(program, layer, done[i], done[i + 1]);
      }
      visit(step);
      done[i] = goals[i], origin[i] = step.origin;
    }
  }
}

}  // namespace intrs

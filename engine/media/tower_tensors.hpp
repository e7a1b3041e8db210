// Finds a tower's tensors in its file, whose types and shapes are checked. Private to engine/media.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/media/tower.hpp"
#include "engine/model/problems.hpp"

namespace orcd::engine {

/// Tells all that is wrong to `problems`, which outlives the object, as the file does.
class tower_binder {
 public:
  tower_binder(const gguf_file& file, problem_list& problems) : file_(file), problems_(problems) {}

  /// `cols` by `rows`; rows 0: a vector, which must be F32.
  void bind(tensor_view& to, const std::string& name, std::uint64_t cols, std::uint64_t rows,
            bool required = true);
  /// NAME_min and NAME_max, of one value each, where the file has them.
  void bind_range(std::optional<value_range>& to, const std::string& name);
  /// Of a convolution along one side: `values` of each of `channels`, which become one row.
  void bind_kernel(tensor_view& to, const std::string& name, std::uint64_t values, std::uint64_t channels,
                   std::uint64_t rows);

 private:
  const tensor_view* find(const std::string& name, bool required);
  void check(const tensor_view& bound, const tensor_view& found, const std::string& name, std::uint64_t cols,
             std::uint64_t rows);

  const gguf_file& file_;
  problem_list& problems_;
};

/// The layers, of which `weights` has as many as there are, with names that begin with "v.blk." or "a.blk.".
/// Sets spec.clips, which the tensors alone tell.
void bind_tower_layers(std::string_view prefix, const gguf_file& file, tower_spec& spec, tower_binder& bind,
                       tower_weights& weights);

/// Two matrices of a merger, by their names, between which there are `inner` values, or as many as before
/// them.
void bind_tower_merger(const tower_spec& spec, tower_binder& bind, const std::string& first,
                       const std::string& second, tower_merger& to, std::uint64_t inner = 0);

/// All of a tower of sounds. Sets spec.inner_width, which the tensors alone tell.
void bind_sound_tower(const gguf_file& file, tower_spec& spec, problem_list& problems,
                      tower_weights& weights);

}  // namespace orcd::engine

// The forward pass of one step on the host: embeds the step's tokens, runs every layer over all of them at
// once, and computes logits where they are requested. Branches on model_spec fields only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/model/rope.hpp"
#include "gpu/host/host_adapters.hpp"
#include "gpu/host/host_layer_ends.hpp"
#include "gpu/host/host_memory.hpp"
#include "gpu/host/host_page_tables.hpp"
#include "gpu/host/host_recurrence.hpp"
#include "gpu/layer_tap.hpp"
#include "gpu/sequence_form.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

/// Which token of the step gets logits, and the row of the logits they go to.
struct logits_request {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
};

/// The tokens of a step that have chosen an expert.
struct expert_group {
  std::uint32_t expert, first, count;  ///< rows [first, first + count) of expert_in and expert_rows
};

/// A row that stands in the place of a token's embedding; run() reads it, and behind it as many parts of it
/// as model_spec::deepstack_layers says. With `end` its position attends to [first, end) besides what a token
/// there would, `first` being the first of such rows.
struct given_row {
  const float* values = nullptr;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

class host_forward {
 public:
  /// `m` outlives the object. Allocates all memory of a step.
  host_forward(const engine::model& m, const host_extents& extents, unsigned threads, layer_tap tap,
               const engine::cache_source& cache = {}, engine::adapter_room adapters = {});

  /// What holds the keys and values of the steps' sequences.
  [[nodiscard]] host_page_tables& page_tables() noexcept { return page_tables_; }
  [[nodiscard]] const engine::kv_geometry& kv_geometry() const noexcept { return extents_.groups.geometry; }
  [[nodiscard]] const engine::shared_cache& exported_cache() const noexcept { return cache_.exported(); }
  void copy(std::uint32_t group, const engine::page_copy& what) noexcept { cache_.copy(group, what); }
  void clear(std::uint32_t group, engine::kv_page page) noexcept { cache_.clear(group, page); }

  [[nodiscard]] host_adapters& adapters() noexcept { return adapters_; }
  [[nodiscard]] host_recurrence& recurrence() noexcept { return recurrence_; }

  /// How the tokens of a slot's sequence attend to each other; kept until it is set again.
  void set_form(std::uint32_t slot, const sequence_form& form) noexcept { forms_[slot] = form; }

  /// Adds a token to the step that run() will compute, which has room for extents.columns.
  /// With `row`, that stands in the token's place. `rotary` is read where the extents have rotates_grids.
  void add_token(std::uint32_t slot, std::uint32_t position, engine::token_id token,
                 engine::rotary_position rotary, const given_row* row = nullptr);
  [[nodiscard]] std::uint32_t columns() const noexcept { return columns_; }
  [[nodiscard]] kernels::host::thread_pool& pool() noexcept { return pool_; }

  /// Runs the tokens added since the last run. `logits` is [rows][vocab]. False when interrupted.
  [[nodiscard]] bool run(std::span<const logits_request> requests, float* logits,
                         const engine::interrupt_flag& interrupt);
  /// The states after the last layer of the `columns` tokens of the last run, in the order they were added:
  /// [columns][embedding], until the next run.
  [[nodiscard]] const float* final_states(std::uint32_t columns);
  /// Forgets the tokens added since the last run.
  void discard_tokens() noexcept {
    columns_ = 0;
    rows_.clear();
  }

 private:
  void embed();
  void rope_angles();
  void add_positions();
  void run_layer(std::uint32_t layer);
  void run_post_norm_layer(std::uint32_t layer);
  void normalise_rows(const float* x, float* out, std::uint32_t rows, const engine::tensor_view& weight,
                      const engine::tensor_view& bias);
  [[nodiscard]] float* half_output() noexcept { return spec_.post_norms ? work_.half_out : work_.residual; }
  void finish_half(const engine::tensor_view& post_norm);
  void post_norm(const engine::tensor_view& weight, const engine::tensor_view& bias);
  void normalise(const engine::tensor_view& weight, const engine::tensor_view& bias);
  void normalise_in_place(const engine::tensor_view& weight, float* x, std::uint32_t width, double eps);
  [[nodiscard]] kernels::int8_rows rounded(const float* x, std::uint32_t width,
                                           std::initializer_list<const engine::tensor_view*> by);
  void project_qkv(std::uint32_t layer);
  void project_latents(std::uint32_t layer);
  void project_factored_query(const engine::layer_weights& weights);
  /// Rows of [columns][heads]: where they begin, and how far apart heads and columns are.
  template <class T>
  struct head_rows {
    T* at;
    std::size_t head, column;
  };
  void multiply_heads(const engine::tensor_view& matrices, head_rows<const float> from, head_rows<float> to);
  void normalise_heads(std::uint32_t layer);
  void scale_queries(std::uint32_t layer);
  void rotate(std::uint32_t layer);
  void store_kv(std::uint32_t layer);
  void attend(std::uint32_t layer);
  void project_attended(std::uint32_t layer);
  void add_lora(engine::lora_target target, std::uint32_t layer, const float* x, std::size_t x_stride,
                float* y, std::size_t y_stride) {
    adapters_.add(target, layer, x, x_stride, y, y_stride, pool_);
  }
  void dense_ffn(std::uint32_t layer);
  void route(std::uint32_t layer);
  void moe_ffn(std::uint32_t layer);
  void dense_and_experts(std::uint32_t layer);
  void shared_ffn(std::uint32_t layer);
  void add_gated(const engine::tensor_view& gate);
  void activate(std::uint32_t layer, std::uint32_t rows, std::uint32_t width);
  void compute_logits(std::span<const logits_request> requests, float* logits);
  void tap(std::string_view name, std::uint32_t layer, const float* values, std::uint64_t count) const;

  struct layer_widths {
    std::uint32_t q, k, v, qkv;
  };
  [[nodiscard]] layer_widths widths(std::uint32_t layer) const noexcept;

  const engine::model& model_;
  const engine::model_spec& spec_;
  host_extents extents_;
  host_workspace work_;
  host_kv_cache cache_;
  host_adapters adapters_;
  host_page_tables page_tables_;
  host_recurrence recurrence_;
  std::vector<engine::rope_table> rope_tables_;  ///< distinct ones
  std::vector<std::uint32_t> rope_of_layer_;     ///< index of each layer's table
  std::vector<expert_group> groups_;
  std::vector<sequence_form> forms_;                       ///< [slots]
  std::vector<std::pair<std::uint32_t, given_row>> rows_;  ///< of the step, by column

  layer_tap tap_;
  std::uint32_t columns_ = 0;
  kernels::host::thread_pool pool_;
};

}  // namespace orcd::gpu

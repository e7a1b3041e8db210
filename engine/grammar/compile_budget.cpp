#include "engine/grammar/compile_budget.hpp"

#include <algorithm>

namespace orcd::engine::grammar {

namespace {

thread_local compile_budget* current = nullptr;
thread_local compile_budget::figures last_figures;

/// This many bytes are filled in the time of one step.
constexpr std::size_t bytes_a_step = 512;

}  // namespace

compile_budget::compile_budget(const compile_limits& limits)
    : limits_(limits), work_left_(limits.work), before_(current) {
  current = this;
}

compile_budget::~compile_budget() {
  last_figures = {worked(), bytes_peak_};
  current = before_;
}

compile_budget::figures compile_budget::last() noexcept {
  return last_figures;
}

void compile_budget::refuse(const std::string& what) const {
  throw grammar_failure{where_ == nullptr ? "#" : *where_,
                        std::string("the ") + limits_.noun + " is too complex: " + what};
}

void compile_budget::work(std::uint64_t steps) {
  if (current == nullptr) return;
  if (steps > current->work_left_) {
    current->work_left_ = 0;
    current->refuse("it takes more than " + std::to_string(current->limits_.work) + " steps to compile");
  }
  current->work_left_ -= steps;
}

void compile_budget::take(std::size_t bytes) {
  if (current == nullptr) return;
  work(1 + bytes / bytes_a_step);
  if (bytes > current->limits_.bytes - current->bytes_) {
    current->refuse("it takes more than " + std::to_string(current->limits_.bytes >> 20U) +
                    " MiB to compile");
  }
  current->bytes_ += bytes;
  current->bytes_peak_ = std::max(current->bytes_peak_, current->bytes_);
}

void compile_budget::give(std::size_t bytes) noexcept {
  if (current != nullptr) current->bytes_ -= std::min(bytes, current->bytes_);
}

const char* compile_budget::noun() noexcept {
  return current == nullptr ? "schema" : current->limits_.noun;
}

boost::json::storage_ptr compile_budget::json() {
  return current == nullptr ? boost::json::storage_ptr() : boost::json::storage_ptr(&current->json_);
}

compile_budget::place::place(const std::string& where) noexcept {
  if (current != nullptr) before_ = std::exchange(current->where_, &where);
}

compile_budget::place::~place() {
  if (current != nullptr) current->where_ = before_;
}

void* compile_budget::json_memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  take(bytes);
  return ::operator new(bytes, std::align_val_t(alignment));
}

void compile_budget::json_memory::do_deallocate(void* at, std::size_t bytes, std::size_t alignment) {
  ::operator delete(at, std::align_val_t(alignment));
  give(bytes);
}

}  // namespace orcd::engine::grammar

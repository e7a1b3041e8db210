// What one compilation may use, from the schema to the finished program: work and bytes, charged before they
// are used. Both are counted, not measured, so that the same schema always has the same result. A budget
// belongs to its thread while it lives; code that allocates or loops charges the budget of its thread, so
// that it need not be passed through every call. A thread without a budget has no limit (tests, and grammars
// that do not come from a request).
#pragma once

#include <boost/json/memory_resource.hpp>
#include <boost/json/storage_ptr.hpp>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace orcd::engine::grammar {

/// Why a grammar cannot be compiled; `where` is the schema's path (a JSON pointer after '#').
struct grammar_failure {
  std::string where;
  std::string what;
  bool impossible = false;  ///< no value is valid there; an alternative of it may be
};

struct compile_limits {
  /// Steps of some 10 to 40 ns; all of them take about a tenth of a second.
  std::uint64_t work = 6'000'000;
  /// Bytes allocated at one time. The allocator's overhead comes on top, a fifth at most.
  std::size_t bytes = 24U << 20U;
  /// What is compiled, for messages.
  const char* noun = "schema";
};

class compile_budget {
 public:
  explicit compile_budget(const compile_limits& limits = {});
  ~compile_budget();
  compile_budget(const compile_budget&) = delete;
  compile_budget& operator=(const compile_budget&) = delete;

  /// Charge the thread's budget; throw grammar_failure at the present place when not enough is left.
  static void work(std::uint64_t steps);
  static void take(std::size_t bytes);
  static void give(std::size_t bytes) noexcept;
  /// What the thread compiles, for messages.
  [[nodiscard]] static const char* noun() noexcept;
  /// Memory for JSON that is charged to the thread's budget; it must not outlive the budget.
  [[nodiscard]] static boost::json::storage_ptr json();

  /// The part of the schema that is being compiled, for messages; `where` must outlive this object.
  class place {
   public:
    explicit place(const std::string& where) noexcept;
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

   private:
    const std::string* before_ = nullptr;
  };

  [[nodiscard]] std::uint64_t worked() const noexcept { return limits_.work - work_left_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t bytes_peak() const noexcept { return bytes_peak_; }
  struct figures {
    std::uint64_t work = 0;
    std::size_t bytes_peak = 0;
  };
  /// The figures of the compilation that ended last on this thread.
  [[nodiscard]] static figures last() noexcept;

 private:
  class json_memory final : public boost::json::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t alignment) override;
    void do_deallocate(void* at, std::size_t bytes, std::size_t alignment) override;
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  };
  [[noreturn]] void refuse(const std::string& what) const;

  compile_limits limits_;
  std::uint64_t work_left_;
  std::size_t bytes_ = 0;
  std::size_t bytes_peak_ = 0;
  const std::string* where_ = nullptr;
  compile_budget* before_;
  json_memory json_;
};

/// Bytes that are charged for as long as this object lives.
class held_bytes {
 public:
  held_bytes() = default;
  held_bytes(held_bytes&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  held_bytes& operator=(held_bytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~held_bytes() { compile_budget::give(bytes_); }
  void add(std::size_t bytes) {
    compile_budget::take(bytes);
    bytes_ += bytes;
  }
  void give(std::size_t bytes) noexcept {
    compile_budget::give(bytes);
    bytes_ -= bytes;
  }
  void take_over(held_bytes& other) noexcept { bytes_ += std::exchange(other.bytes_, 0); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Appends to a container that outlives the budget; charged before it grows.
template <class T>
void append_held(std::vector<T>& to, T value, held_bytes& held) {
  if (to.size() == to.capacity()) {
    const std::size_t before = to.capacity();
    const std::size_t after = before == 0 ? 16 : before + before / 2;
    held.add(after * sizeof(T));
    to.reserve(after);
    held.give(before * sizeof(T));
  }
  to.push_back(std::move(value));
}

/// An allocator for containers that end before the budget does.
template <class T>
struct counted_allocator {
  using value_type = T;
  counted_allocator() = default;
  template <class U>
  counted_allocator(const counted_allocator<U>&) noexcept {}  // NOLINT: as allocators convert
  [[nodiscard]] T* allocate(std::size_t count) {
    compile_budget::take(count * sizeof(T));
    return static_cast<T*>(::operator new(count * sizeof(T)));
  }
  void deallocate(T* at, std::size_t count) noexcept {
    compile_budget::give(count * sizeof(T));
    ::operator delete(at);
  }
  template <class U>
  bool operator==(const counted_allocator<U>&) const noexcept {
    return true;
  }
};

template <class T>
using counted_vector = std::vector<T, counted_allocator<T>>;

}  // namespace orcd::engine::grammar

// Preloaded into the worker by test/integration/test_allocation_failures.py: makes one allocation fail,
// chosen by where it is made rather than by its number, so that "every place once" is a finite list and a run
// does not depend on what other threads do. A place is a hash of the innermost return addresses,
// relative to their modules.
//
//   ORCD_ALLOCATION_LIST=FILE   writes each place that was met, one a line, when main() returns
//   ORCD_ALLOCATION_FAIL=HASH   the first allocation there fails,
//   ORCD_ALLOCATION_BURST=N     and all of the N - 1 after it, whoever makes them (default 1)
//   ORCD_ALLOCATION_TRACE=FILE  gets "module offset" lines of the place when it fails
//
// And by test_leaks.py: what is allocated is a number that no other process changes, as
// resident pages are not.
//
//   ORCD_ALLOCATION_LIVE=FILE   eight bytes of it are, at any time, how many bytes are allocated and not
//   freed
//
// Only between the first and the last line of main(): before it a constructor of the C++ library has nobody
// who could catch anything.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

constexpr int depth = 12;
constexpr std::size_t places_max = 1U << 16U;

std::atomic<bool> active{false};
bool listing = false;
std::uint64_t wanted = 0;
std::atomic<int> to_fail{0};
std::atomic<bool> met{false};
std::array<std::atomic<std::uint64_t>, places_max> places{};
std::atomic<std::int64_t>* live = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool inside = false;

std::uint64_t place_of(void* const* frames, int count) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (int i = 0; i < count; ++i) {
    dl_find_object object{};
    std::uintptr_t base = 0;
    if (_dl_find_object(frames[i], &object) == 0)
      base = reinterpret_cast<std::uintptr_t>(object.dlfo_map_start);
    hash = (hash ^ (reinterpret_cast<std::uintptr_t>(frames[i]) - base)) * 1099511628211ULL;
    hash ^= hash >> 29U;
  }
  return hash == 0 ? 1 : hash;
}

void note(std::uint64_t place) {
  for (std::size_t i = 0; i < places_max; ++i) {
    auto& row = places[(place + i) % places_max];
    std::uint64_t there = row.load();
    if (there == 0 && row.compare_exchange_strong(there, place)) return;
    if (there == place) return;
  }
}

void trace(void* const* frames, int count) {
  const char* path = std::getenv("ORCD_ALLOCATION_TRACE");
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    std::array<char, 512> line{};
    if (::dladdr(frames[i], &info) == 0) continue;
    const auto offset = static_cast<char*>(frames[i]) - static_cast<char*>(info.dli_fbase);
    const int length = std::snprintf(line.data(), line.size(), "%s %#tx %s\n", info.dli_fname, offset,
                                     info.dli_sname == nullptr ? "" : info.dli_sname);
    if (::write(file, line.data(), static_cast<std::size_t>(length)) < 0) break;
  }
  ::close(file);
}

/// Whether this allocation is to fail. What the hook itself allocates is let through.
bool fails() {
  if (!active.load(std::memory_order_relaxed) || inside) return false;
  if (to_fail.load() > 0 && met.load() && to_fail.fetch_sub(1) > 0) return true;
  if (!listing && met.load()) return false;
  inside = true;
  std::array<void*, depth + 3> frames{};
  const int count = ::backtrace(frames.data(), depth + 3);
  constexpr int own = 2;  // this function and the hook
  const std::uint64_t place = place_of(frames.data() + own, count > own ? count - own : 0);
  if (listing) note(place);
  const bool hit = place == wanted && !met.exchange(true);
  if (hit) {
    to_fail.fetch_sub(1);
    trace(frames.data() + own, count - own);
  }
  inside = false;
  return hit;
}

void write_list() {
  const char* path = std::getenv("ORCD_ALLOCATION_LIST");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (const auto& row : places) {
    if (row.load() != 0) std::fprintf(file, "%llu\n", static_cast<unsigned long long>(row.load()));
  }
  std::fclose(file);
}

void map_live() {
  const char* path = std::getenv("ORCD_ALLOCATION_LIVE");
  const int file = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const at = ::mmap(nullptr, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at != MAP_FAILED) live = static_cast<std::atomic<std::int64_t>*>(at);
}

void count_freed(void* block) {
  if (live != nullptr && block != nullptr)
    live->fetch_sub(static_cast<std::int64_t>(::malloc_usable_size(block)), std::memory_order_relaxed);
}

void* counted(void* block) {
  if (live != nullptr && block != nullptr)
    live->fetch_add(static_cast<std::int64_t>(::malloc_usable_size(block)), std::memory_order_relaxed);
  return block;
}

using main_function = int (*)(int, char**, char**);
main_function real_main = nullptr;

int main_with_failures(int argc, char** argv, char** environment) {
  std::array<void*, 4> warm_up{};
  ::backtrace(warm_up.data(), 4);  // loads what it needs
  listing = std::getenv("ORCD_ALLOCATION_LIST") != nullptr;
  if (const char* text = std::getenv("ORCD_ALLOCATION_FAIL")) wanted = std::strtoull(text, nullptr, 10);
  const char* burst = std::getenv("ORCD_ALLOCATION_BURST");
  to_fail = burst == nullptr ? 1 : std::atoi(burst);
  map_live();
  active = true;
  const int status = real_main(argc, argv, environment);
  active = false;
  write_list();
  return status;
}

void* refuse() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {

// NOLINTBEGIN(*-identifier): names and signatures are the C library's
void* malloc(std::size_t bytes) {
  return fails() ? refuse() : counted(__libc_malloc(bytes));
}
void* calloc(std::size_t count, std::size_t bytes) {
  return fails() ? refuse() : counted(__libc_calloc(count, bytes));
}
void* realloc(void* block, std::size_t bytes) {
  if (bytes != 0 && fails()) return refuse();
  const auto before = static_cast<std::int64_t>(block == nullptr ? 0 : ::malloc_usable_size(block));
  void* const moved = __libc_realloc(block, bytes);
  // What cannot grow stays.
  if (live != nullptr && (moved != nullptr || bytes == 0)) live->fetch_sub(before, std::memory_order_relaxed);
  return counted(moved);
}
void free(void* block) {
  count_freed(block);
  __libc_free(block);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails() ? refuse() : counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? refuse() : counted(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  if (fails()) return ENOMEM;
  *block = counted(__libc_memalign(alignment, bytes));
  return *block == nullptr ? ENOMEM : 0;
}

int __libc_start_main(main_function run, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack_end) {
  using start_function = int (*)(main_function, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<start_function>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  real_main = run;
  return start(main_with_failures, argc, argv, init, fini, loader_fini, stack_end);
}
// NOLINTEND(*-identifier)
}

// How the process sets up its memory, once, at the start of main().
#pragma once

#include <string_view>

namespace orcd::app {

/// Sets how freed memory goes back to the system: blocks from 64 KiB on are mapped on their own, so that they
/// are given back as soon as they are freed, whatever lies beside them.
void return_freed_memory() noexcept;

/// Gives stacks of 8 MiB to the threads made from now on, and to main's as far as the hard limit allows.
/// Throws std::runtime_error where that is less than the deepest nesting of a chat template may take.
void make_room_for_stacks();

/// Makes a shortage of memory or threads that nothing catches (in a destructor, on a library's thread) end
/// the process with exit code 1 and a sentence, which begins with `program`, instead of abort(). Everything
/// else still aborts. Sets the terminate handler and the new handler. Where standard error takes nothing at
/// once, the process ends without the sentence. `program` is a string literal.
void end_in_order_without_memory(std::string_view program) noexcept;

/// Makes OpenSSL initialise itself now, because it would use what it could not allocate. If there is no
/// memory for it, the process ends with exit code 1 and a sentence.
void prepare_cryptography();

}  // namespace orcd::app

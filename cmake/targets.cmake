# Helpers: a library is some directories; a test executable is one directory of Boost.Test sources.

# For the tests around the binary too: Debian's interpreter is the one that has pytest.
find_program(ORCD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(WORKER_TESTS OR WORKER_TOGETHER)
  find_program(ORCD_PYTHON NAMES python3 REQUIRED)
endif()

# Tests with names of their own that another test of their target has, too: regular expressions. They are
# compiled alone. Tests use whole namespaces, so that their own words do not tell what meets.
set(orcd_tests_compiled_alone
    "test/gpu/(gpu_main|cuda/(cuda_growth|cuda_media|weights)_test)"
    "test/gpu/kernels/(head_norm|latent_attention|lora|sample|stream|turned_columns)_test"
    "test/gpu/kernels/(tower|tower_attention)_test"
    "test/http/(http_interleavings|traces_told)"
    "test/support/test_main"
    "test/unit/app/(options/(failover_options|lora_options|parse_options)|process/narration)_test"
    "test/unit/chat/(cut_outputs|gemma4|malformed_calls|output_parser)_test"
    "test/unit/gguf/location_test"
    "test/unit/golden/(demo_model|tiny_models)"
    "test/unit/gpu/(growth_bits|prefix_bits|produced_bits|rejected_drafts|weight_check|wild_files)_test"
    "test/unit/gpu/host/(host_adapters|host_backend|shared_weights)_test"
    "test/unit/gpu/memory/(memfd_driver|residency_audit)_test"
    "test/unit/gpu/plan/(device_memory_plan|model_support)_test"
    "test/unit/gpu/plan/ternary_program_plan_test"
    "test/unit/grammar/(number_bounds|schema)_test"
    "test/unit/holder/weights_table_test"
    "test/unit/inspect/doctor_test"
    "test/unit/kernels/host/(lora|matmul|rows)"
    "test/unit/lora/(peft_adapter|read_adapter)_test"
    "test/unit/net/(failover/peer|models/adapter_folder|responses/(input_items|offered_tools))_test"
    "test/unit/net/responses/(response_request|response_writer)_test"
    "test/unit/net/jobs/(background_queue|job_execution|resume)_test"
    "test/unit/net/llama/(llama_request|token_endpoints)_test"
    "test/unit/net/completion/(chat_conversations|completion_request|dialect_fields|generic_tools)_test"
    "test/unit/net/completion/(grammar_source|message_output|message_reader|output_constraints)_test"
    "test/unit/net/completion/(logprob_text|prepare_completion)_test"
    "test/unit/net/openai/(chunk_extras|completion_answer)_test"
    "test/unit/net/pooled/(pair_format|pooled_request)_test"
    "test/unit/quantize/ternary_codes_test"
    "test/unit/schedule/prefix_tree_test"
    "test/unit/text/(json_tokenizer|pretokenizer_golden|wordpiece)_test")

# orcd_group_sources(TARGET SOURCES): those of a library whose own names do not meet are compiled together.
function(orcd_group_sources target sources)
  list(FILTER sources INCLUDE REGEX "^${CMAKE_SOURCE_DIR}/.*\\.cpp$")
  list(TRANSFORM sources REPLACE "^${CMAKE_SOURCE_DIR}/" "")
  execute_process(COMMAND ${ORCD_PYTHON} -B ${CMAKE_SOURCE_DIR}/cmake/group_sources.py ${sources}
                  OUTPUT_VARIABLE rows COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+ [^\n]+" rows "${rows}")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([0-9]+) (.+)$" row "${row}")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# orcd_together(KIND TARGET): sources of a target of KIND, library or test, are compiled several at a time
# where WORKER_TOGETHER says so.
function(orcd_together kind target)
  if(WORKER_TOGETHER)
    # g++ takes what is included for a header, in which fixtures may have no names of a source's own.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    get_target_property(sources ${target} SOURCES)
    if(kind STREQUAL library)
      # The more g++ 12 inlines, the more variants it takes for uninitialized; the preset dev has the warning.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
      orcd_group_sources(${target} "${sources}")
      return()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    foreach(name IN LISTS orcd_tests_compiled_alone)
      set(alone ${sources})
      list(FILTER alone INCLUDE REGEX "/${name}\\.cpp$")
      set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
  endif()
endfunction()

# orcd_library(NAME "DIR;..." LINK...): every .cpp directly in one of the directories.
function(orcd_library name dirs)
  list(TRANSFORM dirs PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM dirs APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS ${dirs})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${ARGN})
    target_compile_options(${name} PRIVATE ${orcd_library_warnings})
    orcd_together(library ${name})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ARGN})
  endif()
endfunction()

# Optimizing a test's own code takes longer than it saves, most of all with a sanitizer's checks; what it
# links is built as configured.
if(WORKER_SANITIZE)
  set(orcd_test_options $<$<COMPILE_LANGUAGE:CXX>:-O0>)
else()
  set(orcd_test_options $<$<COMPILE_LANGUAGE:CXX>:-O1>)
endif()

# They have one thread, or those that unit_gpu has too: not run under the thread sanitizer.
set(orcd_one_thread gguf safetensors model lora jinja chat grammar sampling golden inspect pod)
# What is run of others there: the rest has one thread, and takes minutes.
set(orcd_thread_tests_text real_vocabularies/encoding_is_the_same_from_many_threads)
set(orcd_thread_tests_gpu !draft_bits !growth_bits !prefix_bits !produced_bits !rejected_drafts)
# Under the other sanitizers a test apart, unit_NAME_rest: what takes minutes there and repeats, for all
# families or formats, what the others do once, or judges a time.
set(orcd_rest_chat output_grammars/a_demanded_call_is_always_there
    call_formats/types_of_large_schemas_take_no_long_time cut_outputs/marks_again_and_again_take_no_long_time)
set(orcd_rest_text pretokenizer_golden/ids_and_words_of_every_kind
    pretokenizer_golden/the_time_is_linear_in_the_length real_vocabularies/one_huge_word_is_not_quadratic)
set(orcd_rest_jinja work/the_largest_sources_take_what_is_charged work/what_is_charged_is_what_it_takes)
set(orcd_rest_grammar generation/gives_what_a_validator_has_judged
    budgets/the_same_schema_has_the_same_answer_and_costs_the_same
    budgets/the_worst_schemas_end_within_the_budget)
set(orcd_rest_gpu draft_bits growth_bits prefix_bits produced_bits rejected_drafts)
set(orcd_rest_golden golden_demo_model)

# orcd_unit_test(NAME LINK...): what is in test/unit/NAME and its rooms becomes the executable and the CTest
# unit_NAME.
function(orcd_unit_test name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/unit/${name}/*.cpp)
  if(sources)
    add_executable(unit_${name} ${sources} ${CMAKE_SOURCE_DIR}/test/support/test_main.cpp)
    target_link_libraries(unit_${name} PRIVATE ${ARGN} orcd_test_support Boost::unit_test_framework)
    target_compile_options(unit_${name} PRIVATE ${orcd_test_options})
    # Relative: sources of another checkout are the same to the compiler's cache.
    target_compile_definitions(unit_${name} PRIVATE ORCD_TEST_DATA="test/data")
    orcd_precompile(test unit_${name})
    orcd_together(test unit_${name})
    set(selection)
    if(WORKER_SANITIZE MATCHES thread AND orcd_thread_tests_${name})
      list(JOIN orcd_thread_tests_${name} ":" selection)
      set(selection --run_test=${selection})
    elseif(WORKER_SANITIZE MATCHES address AND orcd_rest_${name})
      list(JOIN orcd_rest_${name} ":" rest)
      add_test(NAME unit_${name}_rest COMMAND unit_${name} --log_level=test_suite --run_test=${rest}
               WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(unit_${name}_rest PROPERTIES TIMEOUT 1500)
      list(TRANSFORM orcd_rest_${name} PREPEND ! OUTPUT_VARIABLE selection)
      list(JOIN selection ":" selection)
      set(selection --run_test=${selection})
    endif()
    add_test(NAME unit_${name} COMMAND unit_${name} --log_level=test_suite --report_level=short ${selection}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    # Seconds in a release build; minutes under a sanitizer on two busy cores.
    set_tests_properties(unit_${name} PROPERTIES TIMEOUT 900)
    if(WORKER_SANITIZE MATCHES thread AND name IN_LIST orcd_one_thread)
      set_target_properties(unit_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
      set_tests_properties(unit_${name} PROPERTIES DISABLED ON)
    endif()
  endif()
endfunction()

# orcd_fuzz(NAME LINK...): test/fuzz/NAME.cpp becomes fuzz_NAME, run from its kept corpus for 8 s; longer in
# the night.
function(orcd_fuzz name)
  add_executable(fuzz_${name} ${CMAKE_SOURCE_DIR}/test/fuzz/${name}.cpp)
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${name})
  add_test(NAME fuzz_${name}
           COMMAND fuzz_${name} -max_total_time=8 -timeout=10 -rss_limit_mb=4096 -print_final_stats=1
           ${CMAKE_BINARY_DIR}/corpus/${name} ${CMAKE_SOURCE_DIR}/test/fuzz/corpus/${name})
  set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 180)
endfunction()

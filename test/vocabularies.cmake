# Unpacks the vocabularies under test/data/tokenizers once, into the build directory.
find_program(ORCD_XZ xz REQUIRED)
set(ORCD_VOCABULARIES ${CMAKE_BINARY_DIR}/vocabularies)
file(MAKE_DIRECTORY ${ORCD_VOCABULARIES})
set(unpacked)
foreach(name IN ITEMS ggml-vocab-gpt-2.gguf ggml-vocab-phi-3.gguf gpt-oss.tokenizer.json qwen3.tokenizer.json
        golden.jsonl pretokenizers.json)
  set(packed ${CMAKE_SOURCE_DIR}/test/data/tokenizers/${name}.xz)
  add_custom_command(OUTPUT ${ORCD_VOCABULARIES}/${name} DEPENDS ${packed} VERBATIM
                     COMMAND sh -c "\"$1\" -dc \"$2\" > \"$3\"" sh ${ORCD_XZ} ${packed}
                             ${ORCD_VOCABULARIES}/${name})
  list(APPEND unpacked ${ORCD_VOCABULARIES}/${name})
endforeach()
add_custom_target(test_vocabularies DEPENDS ${unpacked})
foreach(test IN ITEMS unit_text unit_grammar)
  if(TARGET ${test})
    add_dependencies(${test} test_vocabularies)
    target_compile_definitions(${test} PRIVATE ORCD_VOCABULARIES="${ORCD_VOCABULARIES}")
  endif()
endforeach()

// Gives the linker a symbol whose library is then not found.
extern "C" __attribute__((visibility("default"))) int zoo_missing_function() { return 1; }

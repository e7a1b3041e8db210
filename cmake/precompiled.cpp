// Nothing of its own: the targets that compile it are there for their headers (precompiled.cmake).
int main() {}

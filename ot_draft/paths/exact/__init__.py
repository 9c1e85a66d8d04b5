"""The exact check of a path rule by enumeration, and the path program that bounds every lossless one."""

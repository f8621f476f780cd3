"""OpenVINO and NNCF: conversion to IR, quantization and the runtime of IR on the CPU."""

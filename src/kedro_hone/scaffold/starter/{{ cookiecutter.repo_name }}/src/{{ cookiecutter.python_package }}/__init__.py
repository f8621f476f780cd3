"""{{ cookiecutter.project_name }}"""
